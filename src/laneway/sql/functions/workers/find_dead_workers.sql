-- Return the workers that are not stopped and have sent no heartbeat for p_timeout (null: for their own timeout).
-- Not consumers and producers: they may be silent with valid leases, because their programs block the event loop.
-- Locks: none. Errors: none.
create or replace function laneway.find_dead_workers(p_timeout interval default null) returns setof text
language sql stable
set search_path = ''
as $$
  select w.worker_id
    from laneway.worker w
   where w.kind = 'worker'
     and w.state <> 'stopped'
     and w.heartbeat_at < clock_timestamp() - coalesce(p_timeout, w.timeout)
   order by w.worker_id;
$$;
