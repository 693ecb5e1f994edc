-- Return what the events say about a message's acknowledgement, by its consumer or by hand: the attempt, the consumer,
-- and when the message was claimed (since) and acknowledged (at). No row if there is no such event.
-- Reads only events that name the message's lane (events_of_message).
-- Locks: none. Errors: none.
create or replace function laneway.last_ack(p_group_id int, p_lane_id int, p_seq bigint)
returns table (attempt smallint, consumer text, since timestamptz, at timestamptz)
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
  with own as materialized (
    select w.*
      from laneway.events_of_message(p_lane_id, p_seq) w
     where w.action in ('acked', 'moved')
       and w.group_id = p_group_id)
  select e.attempt, coalesce(p.consumer, e.consumer), coalesce(p.since, e.since), e.at
    from own e
    left join lateral unnest(e.part_first, e.part_last, e.part_consumer, e.part_since)
                      p (first_seq, last_seq, consumer, since)
      on p_seq between p.first_seq and p.last_seq
   where (e.action = 'acked' or e.detail ->> 'to' = 'acknowledged')
     and (e.part_first is null or p.first_seq is not null)
   order by e.xid desc, e.event_id desc
   limit 1;
$$;
