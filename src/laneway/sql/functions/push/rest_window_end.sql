-- Until when a lane rests for its queue's rest_window: so long after its newest message. Null: it does not.
-- For readers that are put somewhere while it does; those that are there when something is pushed are told by start_rest_windows.
-- Locks: none. Errors: none.
create or replace function laneway.rest_window_end(p_lane_id int) returns timestamptz
language plpgsql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_window interval;
begin
  select q.rest_window into v_window
    from laneway.lane l join laneway.queue q on q.queue_id = l.queue_id where l.lane_id = p_lane_id;
  if v_window is not null then
    return (select m.created_at from laneway.message m where m.lane_id = p_lane_id order by m.seq desc limit 1) + v_window;
  end if;
  return null;
end $$;
