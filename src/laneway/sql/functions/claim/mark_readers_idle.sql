-- Mark readers of a group idle that have nothing to read, so that claims need not find it out: for a group that was
-- created at the end of a queue with many lanes.
-- One step of up to 1000 lanes, after lane p_after. Return the last lane of the step, or null when there are no more:
-- call again with the result, in another transaction.
-- Locks: readers' and lanes' advisory locks; never waits for one. Errors: none.
create or replace function laneway.mark_readers_idle(p_group_id int, p_after int default null) returns int
language plpgsql
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  c_step constant int := 1000;
  v_reader record;
  v_lanes int := 0;
  v_last int;
begin
  for v_reader in
    select r.reader_id, r.lane_id, r.ready
      from laneway.reader r
     where r.group_id = p_group_id
       and r.lane_id > coalesce(p_after, 0)
     order by r.lane_id
     limit c_step
  loop
    v_lanes := v_lanes + 1;
    v_last := v_reader.lane_id;
    if v_reader.ready and laneway.try_lock_reader(v_reader.reader_id) then
      perform laneway.mark_reader_idle(v_reader.reader_id, v_reader.lane_id);
    end if;
  end loop;
  return case when v_lanes = c_step then v_last end;
end $$;
