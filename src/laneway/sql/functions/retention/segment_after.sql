-- Return the segment in which a reader at p_seq continues to read its lane. Locks: none. Errors: none.
create or replace function laneway.segment_after(p_lane_id int, p_seq bigint, p_logged boolean) returns int
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  return coalesce(
    (select m.segment
       from laneway.message m
      where m.lane_id = p_lane_id
        and m.seq > p_seq
      order by m.seq
      limit 1),
    -- A push in progress may still write to the segment of the newest message.
    (select m.segment
       from laneway.message m
      where m.lane_id = p_lane_id
      order by m.seq desc
      limit 1),
    (select min(s.segment)
       from laneway.segment s
      where s.opened_at is not null
        and laneway.is_logged(s.segment) = p_logged));
end $$;
