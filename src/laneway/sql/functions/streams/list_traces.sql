-- Return the traces of one message (lane and key), oldest first, or those under one name, newest first, and the total
-- number.
-- Locks: none. Errors: none.
create or replace function laneway.list_traces(
  p_lane_id int default null, p_key text default null, p_name text default null, p_from timestamptz default null,
  p_to timestamptz default null, p_limit int default 100, p_offset int default 0)
returns table (
  trace_id bigint, queue text, lane_id int, partition text, key text, group_name text, event_type text, names text[],
  data json, at timestamptz, total bigint)
language sql stable
set search_path = ''
as $$
  select t.trace_id, q.name, t.lane_id, l.partition, t.key, t.group_name, t.event_type, t.names, t.data, t.at,
         count(*) over ()
    from laneway.stream_trace t
    join laneway.lane l on l.lane_id = t.lane_id
    join laneway.queue q on q.queue_id = l.queue_id
   where (p_lane_id is null or (t.lane_id = p_lane_id and t.key = p_key))
     and (p_name is null or t.names @> array[p_name])
     and (p_from is null or t.at >= p_from)
     and (p_to is null or t.at <= p_to)
   order by case when p_name is null then t.trace_id else - t.trace_id end
   limit greatest(p_limit, 0) offset greatest(p_offset, 0);
$$;
