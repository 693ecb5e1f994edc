-- Start the rest windows of lanes that got messages: the readers of these lanes claim nothing until the window ends.
-- Lanes of queues without a rest window stay as they are.
-- Locks: the readers' advisory locks, in order of lane. Errors: none.
create or replace function laneway.start_rest_windows(p_lanes int[]) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_reader record;
begin
  for v_reader in
    select r.reader_id, q.rest_window
      from laneway.reader r
      join laneway.lane l on l.lane_id = r.lane_id
      join laneway.queue q on q.queue_id = l.queue_id
     where r.lane_id = any (p_lanes)
       and q.rest_window is not null
     order by r.lane_id, r.reader_id
  loop
    perform laneway.lock_reader(v_reader.reader_id);
    update laneway.progress p
       set not_before = greatest(p.not_before, clock_timestamp() + v_reader.rest_window)
     where p.reader_id = v_reader.reader_id
       and p.step = (select n.step from laneway.newest_progress(v_reader.reader_id) n);
  end loop;
end $$;
