-- Marks readers of a group idle that have nothing to read, as those of a group made at the end of a wide queue, so that
-- claims need not find it out. A step of up to 1000 lanes: answers the lane it came to. Where that is not null there are
-- more: call again with it, in another transaction.
-- Locks: readers' and lanes' advisory locks, never waiting for one. Errors: none.
create or replace function laneway.mark_readers_idle(p_group_id int, p_after int default null) returns int
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_reader record;
  v_lanes int := 0;
  v_after int;
begin
  for v_reader in
    select r.reader_id, r.lane_id, r.ready from laneway.reader r where r.group_id = p_group_id and r.lane_id > coalesce(p_after, 0) order by r.lane_id limit 1000
  loop
    v_lanes := v_lanes + 1;
    v_after := v_reader.lane_id;
    if v_reader.ready and pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id) then
      perform laneway.mark_reader_idle(v_reader.reader_id, v_reader.lane_id);
    end if;
  end loop;
  return case when v_lanes = 1000 then v_after end;
end $$;
