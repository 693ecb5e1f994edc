-- Clear the activity log: delete anomalies and consumer counts, and hide all events up to now, also from detectors that
-- have not read them yet. The events themselves stay until their segment is dropped, because acknowledgements are read
-- from them.
-- Locks: the row of activity. Errors: none.
create or replace function laneway.clear_activity() returns void
language sql
set search_path = ''
as $$
  update laneway.activity
     set cleared = pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot()),
         seen = pg_catalog.pg_current_snapshot();

  delete from laneway.anomaly;

  delete from laneway.consumer_activity;
$$;
