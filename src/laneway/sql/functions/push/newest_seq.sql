-- The newest seq of a lane: in the log from p_segment downward, else what is no longer kept, else what its
-- readers have passed or noted ahead (an UNLOGGED segment may have been emptied by a crash).
-- Locks: none; call it under the lane's lock to hold it still. Errors: LW503 the lane was removed meanwhile.
create or replace function laneway.newest_seq(p_lane_id int, p_segment int) returns bigint
language plpgsql stable set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_segment int;
  v_seq bigint;
begin
  for v_segment in
    select s.segment from laneway.segment s
     where s.segment <= p_segment and s.segment % 2 = p_segment % 2 order by s.segment desc
  loop
    select m.seq into v_seq from laneway.message m
     where m.segment = v_segment and m.lane_id = p_lane_id order by m.seq desc limit 1;
    exit when found;
  end loop;
  if p_segment % 2 = 1 or v_seq is null then
    -- A push that found the lane before it was removed, and got its lock after: its message would never be seen.
    if not exists (select from laneway.lane l where l.lane_id = p_lane_id) then
      raise exception 'lane % was removed', p_lane_id using errcode = 'LW503', hint = 'Nothing was pushed; call again.';
    end if;
    select greatest(v_seq, max(l.base), max(p.seq), max(p.exceptions_until)) into v_seq
      from laneway.lane l left join laneway.reader r on r.lane_id = l.lane_id
      left join lateral (select p.seq, p.exceptions_until from laneway.progress p where p.reader_id = r.reader_id order by p.step desc limit 1) p on true
     where l.lane_id = p_lane_id;
  end if;
  return coalesce(v_seq, 0);
end $$;
