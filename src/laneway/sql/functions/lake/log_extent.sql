-- Return in which segments the log stores each lane's messages after a seq: a row for each such segment, newest first.
-- p_lanes and p_after are parallel arrays. Segments are searched downward only until p_after is reached.
-- A lane's seqs follow commit order, so all messages up to last_seq are visible to this snapshot.
-- Locks: none. Errors: none.
create or replace function laneway.log_extent(p_lanes int[], p_after bigint[])
returns table (lane_id int, segment int, first_seq bigint, last_seq bigint)
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_lane record;
begin
  for v_lane in
    select l.lane_id, greatest(u.after, l.base) as after
      from unnest(p_lanes, p_after) u (lane_id, after)
      join laneway.lane l on l.lane_id = u.lane_id
  loop
    lane_id := v_lane.lane_id;
    for segment in
      select s.segment
        from laneway.segment s
       where s.opened_at is not null
       order by s.segment desc
    loop
      select m.seq into last_seq
        from laneway.message m
       where m.segment = log_extent.segment
         and m.lane_id = v_lane.lane_id
       order by m.seq desc
       limit 1;
      continue when last_seq is null;
      exit when last_seq <= v_lane.after;
      select m.seq into first_seq
        from laneway.message m
       where m.segment = log_extent.segment
         and m.lane_id = v_lane.lane_id
         and m.seq > v_lane.after
       order by m.seq
       limit 1;
      return next;
      exit when first_seq = v_lane.after + 1;
    end loop;
  end loop;
end $$;
