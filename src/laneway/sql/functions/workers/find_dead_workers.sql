-- The workers that have not been heard of for p_timeout, or where that is null for their own, and are not stopped.
-- Locks: none. Errors: none.
create or replace function laneway.find_dead_workers(p_timeout interval default null) returns setof text
language sql stable set search_path = '' as $$
  select w.worker_id from laneway.worker w where w.state <> 'stopped' and w.heartbeat_at < clock_timestamp() - coalesce(p_timeout, w.timeout) order by w.worker_id;
$$;
