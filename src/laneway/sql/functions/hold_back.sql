-- Has lanes rest for a time from now on, for every ordered group that reads them: a buffer window.
-- Locks: the readers' advisory locks, in order of reader. Errors: none.
create or replace function laneway.hold_back(p_lanes int[], p_window interval) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_reader int;
begin
  for v_reader in select r.reader_id from laneway.reader r where r.lane_id = any (p_lanes) order by r.reader_id loop
    perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader);
    update laneway.progress p set not_before = greatest(p.not_before, clock_timestamp() + p_window)
     where p.reader_id = v_reader and p.step = (select max(o.step) from laneway.progress o where o.reader_id = v_reader);
  end loop;
end $$;
