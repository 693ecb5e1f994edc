-- Delete rows of the lake's gold tables that are older than policy.history_retention; the lake itself keeps them.
-- Return how many. Locks: the rows. Errors: none.
create or replace function laneway.sweep_history() returns bigint
language plpgsql
set search_path = ''
as $$
declare
  v_until timestamptz := (select clock_timestamp() - p.history_retention from laneway.policy p);
  v_rows bigint;
  v_count bigint := 0;
begin
  delete from laneway.history_traffic h where h.at < v_until;
  get diagnostics v_count = row_count;
  delete from laneway.history_consumer h where h.at < v_until;
  get diagnostics v_rows = row_count;
  v_count := v_count + v_rows;
  delete from laneway.history_anomaly h where h.at < v_until;
  get diagnostics v_rows = row_count;
  return v_count + v_rows;
end $$;
