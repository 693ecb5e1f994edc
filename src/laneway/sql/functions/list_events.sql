-- What happened, newest first: the view events with names and the messages' ids, filtered and paged. Reads segments
-- from the newest on. Locks: none. Errors: none.
create or replace function laneway.list_events(
  p_queue_ids int[] default null, p_actions text[] default null, p_consumer text default null, p_from timestamptz default null, p_to timestamptz default null,
  p_limit int default 100, p_offset int default 0)
returns table (event_id bigint, at timestamptz, action text, queue_id int, queue_name text, group_name text, type text, priority smallint, message_segment int, lane_id int,
  first_seq bigint, last_seq bigint, attempt smallint, token uuid, consumer text, since timestamptz, reason text, detail json)
language sql stable set search_path = '' as $$
  select e.event_id, e.at, e.action, e.queue_id, coalesce(q.name, e.detail ->> 'name'), g.name, l.partition, l.priority, e.message_segment, e.lane_id,
         e.first_seq, e.last_seq, e.attempt, e.token, e.consumer, e.since, e.reason, e.detail
    from (select v.* from laneway.events v
           where (p_queue_ids is null or v.queue_id = any (p_queue_ids)) and (p_actions is null or v.action = any (p_actions)) and (p_consumer is null or v.consumer = p_consumer)
             and (p_from is null or v.at >= p_from) and (p_to is null or v.at <= p_to)
           order by v.event_id desc, v.first_seq limit p_limit offset p_offset) e
    left join laneway.queue q on q.queue_id = e.queue_id
    left join laneway.consumer_group g on g.group_id = e.group_id
    left join laneway.lane l on l.lane_id = e.lane_id
   order by e.event_id desc, e.first_seq;
$$;
