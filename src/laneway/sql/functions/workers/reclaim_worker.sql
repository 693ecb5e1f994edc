-- Return a worker's messages in flight to the queues it is registered for, and stop the worker. The attempt counts, by
-- the rules of nack; a worker that is still alive and was not asked to stop registers itself again.
-- p_release: the attempt does not count, and the worker must stop.
-- Messages that a consumer of the same name has of other queues are not touched.
-- Return each queue's id and how many of its messages were returned.
-- Locks: as return_messages, then the worker's row. Errors: LW404 no such worker.
create or replace function laneway.reclaim_worker(p_worker_id text, p_release boolean default false)
returns table (queue_id int, messages int)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_claim record;
  v_reason text := format('worker %s is gone', p_worker_id);
  v_counts jsonb := '{}'; -- by queue id
begin
  if not exists (select from laneway.worker w where w.worker_id = p_worker_id) then
    perform laneway.raise_unknown_worker(p_worker_id);
  end if;
  for v_claim in
    select c.token, c.lane_id, c.part, c.pending, g.queue_id
      from laneway.claim c
      join laneway.consumer_group g on g.group_id = c.group_id
      join laneway.queue q on q.queue_id = g.queue_id
      join laneway.worker w on w.worker_id = p_worker_id and q.name = any (w.queues)
     where c.consumer = p_worker_id
     order by c.lane_id, c.token, c.part
  loop
    v_counts := v_counts || jsonb_build_object(
      v_claim.queue_id::text,
      coalesce((v_counts ->> v_claim.queue_id::text)::int, 0) + (
        select count(*)::int
          from laneway.return_messages(
                 v_claim.token, v_claim.lane_id, v_claim.part, v_claim.pending,
                 case when p_release then 'release' else 'retry' end, null,
                 case when not p_release then v_reason end, v_reason || ', out of attempts',
                 case when p_release then 'released' else 'nacked' end)));
  end loop;
  update laneway.worker w
     set state = 'stopped',
         asked = case when p_release or w.asked = 'stopped' then 'stopped' end,
         stopped_at = coalesce(w.stopped_at, clock_timestamp())
   where w.worker_id = p_worker_id;
  return query
    select k.key::int, k.value::int from jsonb_each_text(v_counts) k (key, value);
end $$;
