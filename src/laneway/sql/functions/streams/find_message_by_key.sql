-- Find a message by its lane and dedup key, or its address, as a group sees it; see resolve_dedup_keys.
-- Locks: none. Errors: none.
create or replace function laneway.find_message_by_key(
  p_lane_id int,
  p_group text,
  p_key text,
  p_segment int,
  p_seq bigint)
returns table (segment int, seq bigint)
language sql stable set search_path = '' as $$
  select f.segment, f.seq
    from laneway.lane l
    join laneway.consumer_group g
      on g.queue_id = l.queue_id and g.name = p_group
    join laneway.reader r
      on r.group_id = g.group_id and r.lane_id = l.lane_id
   cross join lateral laneway.resolve_dedup_keys(
           array[r.reader_id], array[l.lane_id], array[p_key], array[p_segment], array[p_seq]) f
   where l.lane_id = p_lane_id;
$$;
