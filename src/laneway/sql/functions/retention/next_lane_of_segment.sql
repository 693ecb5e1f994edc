-- Return the lane with the next higher id that has messages in a segment, or null: step through the index from lane to
-- lane instead of reading all messages. Start with -1.
-- Locks: none. Errors: none.
create or replace function laneway.next_lane_of_segment(p_segment int, p_lane_id int) returns int
language plpgsql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  return (
    select m.lane_id
      from laneway.message m
     where m.segment = p_segment
       and m.lane_id > p_lane_id
     order by m.lane_id
     limit 1);
end $$;
