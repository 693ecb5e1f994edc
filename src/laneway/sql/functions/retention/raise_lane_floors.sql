-- Notes for every lane with messages in a segment that is about to go what its newest seq there was, and forgets
-- what was noted about them. Locks: the lanes' rows. Errors: none.
create or replace function laneway.raise_lane_floors(p_segment int) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_lane int := -1;
  v_newest bigint;
begin
  loop
    v_lane := (select m.lane_id from laneway.message m where m.segment = p_segment and m.lane_id > v_lane order by m.lane_id limit 1);
    exit when v_lane is null;
    v_newest := (select m.seq from laneway.message m where m.segment = p_segment and m.lane_id = v_lane order by m.seq desc limit 1);
    perform laneway.raise_lane_floor(v_lane, v_newest);
  end loop;
end $$;
