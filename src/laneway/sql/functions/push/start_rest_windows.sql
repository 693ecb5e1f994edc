-- Has those of the lanes whose queue has a rest_window rest for it from now on, for every ordered group that reads them.
-- Locks: the readers' advisory locks, in order of reader. Errors: none.
create or replace function laneway.start_rest_windows(p_lanes int[]) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_reader record;
begin
  for v_reader in
    select r.reader_id, q.rest_window as rest
      from laneway.reader r join laneway.lane l on l.lane_id = r.lane_id join laneway.queue q on q.queue_id = l.queue_id
     where r.lane_id = any (p_lanes) and q.rest_window is not null order by r.reader_id
  loop
    perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id);
    update laneway.progress p set not_before = greatest(p.not_before, clock_timestamp() + v_reader.rest)
     where p.reader_id = v_reader.reader_id and p.step = (select max(o.step) from laneway.progress o where o.reader_id = v_reader.reader_id);
  end loop;
end $$;
