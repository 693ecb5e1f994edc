-- Return when the rest window of a lane's queue ends: that long after the newest message. Null if the queue has none.
-- For readers that are repositioned in the window; start_rest_windows sets it for the others at each push.
-- Locks: none. Errors: none.
create or replace function laneway.rest_window_end(p_lane_id int) returns timestamptz
language plpgsql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_window interval;
begin
  select q.rest_window
    into v_window
    from laneway.lane l
    join laneway.queue q on q.queue_id = l.queue_id
   where l.lane_id = p_lane_id;
  if v_window is null then
    return null;
  end if;
  return v_window + (
    select m.created_at
      from laneway.message m
     where m.lane_id = p_lane_id
     order by m.seq desc
     limit 1);
end $$;
