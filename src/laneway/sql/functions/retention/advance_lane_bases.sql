-- Advance the base of every lane with messages in a segment that is about to be dropped to the lane's newest seq there.
-- Locks: the lanes' rows. Errors: none.
create or replace function laneway.advance_lane_bases(p_segment int) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_lane int := -1;
  v_newest bigint;
begin
  loop
    v_lane := laneway.next_lane_of_segment(p_segment, v_lane);
    exit when v_lane is null;
    v_newest := (
      select m.seq
        from laneway.message m
       where m.segment = p_segment
         and m.lane_id = v_lane
       order by m.seq desc
       limit 1);
    perform laneway.advance_lane_base(v_lane, v_newest);
  end loop;
end $$;
