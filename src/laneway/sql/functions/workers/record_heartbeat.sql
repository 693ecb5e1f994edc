-- Record a worker's heartbeat, how many messages it has handled and failed since it started, and the progress of those
-- that it handles. Return its state, the state it is asked to change to, and whether leases of its were ended by hand
-- since its last heartbeat. Locks: the row. Errors: LW404 no such worker.
create or replace function laneway.record_heartbeat(
  p_worker_id text, p_handled bigint, p_failed bigint, p_progress json default null)
returns table (state text, asked text, leases_ended boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_before timestamptz;
begin
  select w.heartbeat_at into v_before from laneway.worker w where w.worker_id = p_worker_id for update;
  if not found then
    perform laneway.raise_unknown_worker(p_worker_id);
  end if;
  return query
    update laneway.worker w
       set heartbeat_at = clock_timestamp(), handled = p_handled, failed = p_failed, progress = p_progress
     where w.worker_id = p_worker_id
    returning w.state, w.asked, coalesce(w.leases_ended_at >= v_before, false);
end $$;
