-- Change a worker's state to p_to if it is one of p_from and, with p_idle, if the worker has no messages in flight.
-- p_asked: the state that the worker is asked to change to next.
-- Return the state before (was) and now, and how many messages it has in flight (held).
-- Locks: the row. Errors: LW404 no such worker.
create or replace function laneway.change_worker_state(
  p_worker_id text, p_from text[], p_to text, p_asked text default null, p_idle boolean default false)
returns table (was text, state text, held bigint)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  select w.state into was
    from laneway.worker w
   where w.worker_id = p_worker_id
     for update;
  if not found then
    perform laneway.raise_unknown_worker(p_worker_id);
  end if;
  held := laneway.count_in_flight_of_worker(p_worker_id);
  state := was;
  if was = any (p_from) and not (p_idle and held > 0) then
    state := p_to;
    update laneway.worker w
       set state = p_to,
           asked = p_asked,
           stopped_at = case when p_to = 'stopped' then clock_timestamp() end
     where w.worker_id = p_worker_id;
  end if;
  return next;
end $$;
