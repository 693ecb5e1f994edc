-- Record a worker's heartbeat, and how many messages it has handled and failed since it started. Return its state and
-- the state it is asked to change to. Locks: the row. Errors: LW404 no such worker.
create or replace function laneway.record_heartbeat(p_worker_id text, p_handled bigint, p_failed bigint)
returns table (state text, asked text)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  return query
    update laneway.worker w
       set heartbeat_at = clock_timestamp(), handled = p_handled, failed = p_failed
     where w.worker_id = p_worker_id
    returning w.state, w.asked;
  if not found then
    perform laneway.raise_unknown_worker(p_worker_id);
  end if;
end $$;
