-- Return the snapshot up to which detectors have read events: where the next read begins. A snapshot of another
-- cluster, as in a restored dump, means nothing here. It is replaced by the current one.
-- Locks: the row of activity, if it is replaced. Errors: none.
create or replace function laneway.activity_place() returns pg_snapshot
language sql volatile
set search_path = ''
as $$
  update laneway.activity
     set seen = pg_catalog.pg_current_snapshot()
   where pg_catalog.pg_snapshot_xmax(seen) > pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot());

  select a.seen from laneway.activity a;
$$;
