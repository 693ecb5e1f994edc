-- Return the activity log of one message, oldest first, with the columns of list_activity. Events that were cleared are
-- left out. Locks: none. Errors: none.
create or replace function laneway.message_activity(p_lane_id int, p_seq bigint)
returns table (
  total int, xid xid8, event_id bigint, at timestamptz, kind text, queue_name text, group_name text, type text,
  priority smallint, message_segment int, lane_id int, seq bigint, batch bigint, attempt smallint, token uuid,
  consumer text, since timestamptz, reason text, detail json)
language sql stable
set search_path = ''
as $$
  select (count(*) over ())::int, h.xid, h.event_id, h.at, laneway.event_kind(h.action, h.detail),
         coalesce(q.name, h.detail ->> 'name'), g.name, l.partition, l.priority, h.message_segment, p_lane_id, p_seq,
         coalesce((case when h.action in ('moved', 'deleted') then h.detail ->> 'of' end)::bigint, h.messages),
         h.attempt, h.token, h.consumer, h.since, h.reason, h.detail
    from laneway.message_history(p_lane_id, p_seq) h
    join laneway.activity a on h.xid >= a.cleared
    left join laneway.queue q on q.queue_id = h.queue_id
    left join laneway.consumer_group g on g.group_id = h.group_id
    left join laneway.lane l on l.lane_id = p_lane_id
   order by h.xid, h.event_id;
$$;
