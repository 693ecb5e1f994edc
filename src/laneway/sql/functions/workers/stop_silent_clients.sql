-- Mark consumers and producers as stopped that have sent no heartbeat for their timeout; their leases stay. Return how
-- many. Locks: the rows. Errors: none.
create or replace function laneway.stop_silent_clients() returns int
language sql
set search_path = ''
as $$
  with stopped as (
    update laneway.worker w
       set state = 'stopped', stopped_at = clock_timestamp()
     where w.kind <> 'worker'
       and w.state <> 'stopped'
       and w.heartbeat_at < clock_timestamp() - w.timeout
    returning 1)
  select count(*)::int from stopped;
$$;
