-- Return the newest seq of a lane that was pushed before a time, or the lane's base if there is none. A lane's
-- created_at grows with its seqs, so this is a binary search.
-- Locks: none. Errors: none.
create or replace function laneway.seq_before(p_lane_id int, p_logged boolean, p_time timestamptz) returns bigint
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_low bigint := (select l.base from laneway.lane l where l.lane_id = p_lane_id);
  v_high bigint := laneway.newest_seq(p_lane_id, laneway.current_segment(p_logged));
  v_middle bigint;
  v_found record;
begin
  while v_low < v_high loop
    v_middle := (v_low + v_high + 1) / 2;
    select m.seq, m.created_at into v_found
      from laneway.message m
     where m.lane_id = p_lane_id
       and m.seq >= v_middle
     order by m.seq
     limit 1;
    if found and v_found.created_at < p_time then
      v_low := v_found.seq;
    else
      v_high := v_middle - 1;
    end if;
  end loop;
  return v_low;
end $$;
