-- Events with the names of queues and groups, in the form that the lake stores: a row for each lane or claim of an
-- operation.
-- A deleted group has no name, and a deleted queue has one only in the event of its deletion.
create or replace view laneway.event_log as
  select e.event_id, e.xid, e.at, laneway.event_kind(e.action, e.detail) as kind, e.queue_id,
         coalesce(q.name, e.detail ->> 'name') as queue, g.name as "group", l.partition, l.priority::int as priority,
         e.message_segment as segment, coalesce(p.lane_id, e.lane_id) as lane,
         coalesce(p.first_seq, e.first_seq) as first_seq, coalesce(p.last_seq, e.last_seq) as last_seq,
         e.attempt::int as attempt, coalesce(p.token, e.token)::text as token,
         coalesce(p.consumer, e.consumer) as consumer, coalesce(p.since, e.since) as since, e.reason,
         e.detail::text as detail
    from laneway.event e
    left join laneway.queue q on q.queue_id = e.queue_id
    left join laneway.consumer_group g on g.group_id = e.group_id
    left join lateral unnest(e.part_lane, e.part_first, e.part_last, e.part_token, e.part_consumer, e.part_since)
                      p (lane_id, first_seq, last_seq, token, consumer, since) on true
    left join laneway.lane l on l.lane_id = coalesce(p.lane_id, e.lane_id);

comment on view laneway.event_log is
  'Events with the names of queues and groups: a row for each lane or claim of an operation.';
