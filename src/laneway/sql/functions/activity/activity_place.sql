-- How far detectors have looked: where the next look begins. A place from another cluster, as a restored dump has it,
-- says nothing here, so that they begin anew. Locks: none. Errors: none.
create or replace function laneway.activity_place() returns pg_snapshot
language sql volatile set search_path = '' as $$
  update laneway.activity set seen = pg_catalog.pg_current_snapshot() where pg_catalog.pg_snapshot_xmax(seen) > pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot());
  select a.seen from laneway.activity a;
$$;
