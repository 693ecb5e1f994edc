-- Pushes to one queue that has no room for more than p_room messages that a group has not finished (null: any number), or
-- whose partitions rest for p_window after every push (null: they do not). Answers push_many's rows; the items behind
-- the last that fitted have none, and were not pushed.
-- Locks: room_in's, where room counts; as push_many; hold_back's, where partitions rest. Errors: those of push_many.
create or replace function laneway.push_guarded(
  p_queue_id int, p_room bigint, p_window interval, p_bodies json[], p_partitions text[], p_keys text[], p_headers json[])
returns table (idx int, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_count int := cardinality(p_bodies);
  v_fits int := cardinality(p_bodies);
  v_run record;
  v_lanes int[] := '{}';
begin
  if p_room is not null then
    v_fits := least(v_count, laneway.room_in(p_queue_id, p_room));
  end if;
  if v_fits = 0 then
    return;
  end if;
  for v_run in
    select p.* from laneway.push_many(array[p_queue_id], p_bodies[:v_fits],
      case when cardinality(p_partitions) = v_count then p_partitions[:v_fits] else p_partitions end, null, null,
      case when cardinality(p_keys) = v_count then p_keys[:v_fits] else p_keys end, case when cardinality(p_headers) = v_count then p_headers[:v_fits] else p_headers end) p
  loop
    idx := v_run.idx; run := v_run.run; segment := v_run.segment; lane_id := v_run.lane_id; seq := v_run.seq; duplicate := v_run.duplicate;
    if not duplicate then
      v_lanes := v_lanes || lane_id;
    end if;
    return next;
  end loop;
  if p_window is not null then
    perform laneway.hold_back(v_lanes, p_window);
  end if;
end $$;
