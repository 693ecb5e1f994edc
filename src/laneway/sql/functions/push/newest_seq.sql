-- Return the newest seq of a lane. It is that of the newest message in the log, from p_segment downward. If no message
-- is left, or the segments are unlogged and a crash may have emptied them, it is at least the lane's base and what its
-- readers have passed.
-- Locks: none; the result stays true under the lane's lock. Errors: LW503 the lane was removed meanwhile.
create or replace function laneway.newest_seq(p_lane_id int, p_segment int) returns bigint
language plpgsql stable
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_segment int;
  v_seq bigint;
begin
  for v_segment in
    select s.segment
      from laneway.segment s
     where s.segment <= p_segment
       and laneway.is_logged(s.segment) = laneway.is_logged(p_segment)
     order by s.segment desc
  loop
    select m.seq
      into v_seq
      from laneway.message m
     where m.segment = v_segment
       and m.lane_id = p_lane_id
     order by m.seq desc
     limit 1;
    exit when found;
  end loop;
  if v_seq is not null and laneway.is_logged(p_segment) then
    return v_seq;
  end if;

  -- A push may find a lane, then wait for its lock while the lane is removed. Nobody would read its messages.
  if not exists (select from laneway.lane l where l.lane_id = p_lane_id) then
    raise exception 'lane % was removed', p_lane_id
      using errcode = 'LW503',
            hint = 'Nothing was pushed; call again.';
  end if;
  select greatest(v_seq, max(l.base), max(p.seq), max(p.exceptions_until))
    into v_seq
    from laneway.lane l
    left join laneway.reader r on r.lane_id = l.lane_id
    left join lateral laneway.newest_progress(r.reader_id) p on true
   where l.lane_id = p_lane_id;
  return coalesce(v_seq, 0);
end $$;
