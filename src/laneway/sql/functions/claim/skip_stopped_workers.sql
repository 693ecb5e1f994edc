-- Return p_wants, with 0 for each waiter that is a stopped worker of the group's queue. The messages that it had
-- leased were returned when it stopped; it must not get them again while its handlers, which do not know yet, still
-- run.
-- A consumer that has the name of a worker of other queues is not that worker. p_consumers may be null.
-- Only claims of returned messages call it: claim_shared and claim_past_exceptions.
-- Locks: none. Errors: none.
create or replace function laneway.skip_stopped_workers(p_group_id int, p_wants int[], p_consumers text[]) returns int[]
language plpgsql stable
set search_path = ''
as $$
declare
  v_queue text;
begin
  if p_consumers is null
     or not exists (
       select from laneway.worker w
        where w.worker_id = any (p_consumers)
          and w.state = 'stopped'
          and w.kind = 'worker') then
    return p_wants;
  end if;
  select q.name
    into v_queue
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where g.group_id = p_group_id;
  return array(
    select case
             when exists (select from laneway.worker w
                           where w.worker_id = p_consumers[u.n]
                             and w.state = 'stopped'
                             and w.kind = 'worker'
                             and v_queue = any (w.queues)) then 0
             else u.want
           end
      from unnest(p_wants) with ordinality u (want, n)
     order by u.n);
end $$;
