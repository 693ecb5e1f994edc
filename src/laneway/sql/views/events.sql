-- Events by id: a row for each lane or claim of an operation.
create or replace view laneway.events as
  select e.event_id, e.xid, e.at, e.action, e.queue_id, e.group_id, coalesce(p.lane_id, e.lane_id) as lane_id,
         e.message_segment, coalesce(p.first_seq, e.first_seq) as first_seq,
         coalesce(p.last_seq, e.last_seq) as last_seq, e.attempt, coalesce(p.token, e.token) as token,
         coalesce(p.consumer, e.consumer) as consumer, coalesce(p.since, e.since) as since, e.reason, e.detail,
         e.segment
    from laneway.event e
    left join lateral unnest(e.part_lane, e.part_first, e.part_last, e.part_token, e.part_consumer, e.part_since)
                      p (lane_id, first_seq, last_seq, token, consumer, since) on true;

comment on view laneway.events is 'Events by id: a row for each lane or claim of an operation.';
comment on column laneway.events.since is 'When the claim that this event ended began.';
comment on column laneway.events.message_segment is 'The segment of the messages, the first number of their ids.';
comment on column laneway.events.segment is 'The segment of the event itself.';
