-- Return the queue and partition of each of the given lanes. Locks: none. Errors: none.
create or replace function laneway.find_lanes(p_lanes int[])
returns table (lane_id int, queue_id int, queue text, partition text, ordered boolean)
language sql stable
set search_path = ''
as $$
  select l.lane_id, q.queue_id, q.name, l.partition, q.ordered
    from laneway.lane l
    join laneway.queue q on q.queue_id = l.queue_id
   where l.lane_id = any (p_lanes);
$$;
