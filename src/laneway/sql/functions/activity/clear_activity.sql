-- Forgets what happened so far: anomalies and consumers go, and events of before are shown no more. They themselves
-- stay until their segment goes, since a message's acknowledgement is known from them.
-- Locks: the row of activity. Errors: none.
create or replace function laneway.clear_activity() returns void
language sql set search_path = '' as $$
  update laneway.activity set cleared = pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot());
  delete from laneway.anomaly;
  delete from laneway.consumer_activity;
$$;
