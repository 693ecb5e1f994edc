-- Return the events of one message, oldest first by transaction (event ids are assigned in blocks, so they do not
-- order).
-- Events that name the message's lane are read by index (events_of_message). Two kinds of event cover several lanes and
-- name none:
-- A push is searched backwards from the time the message was pushed or, if it left the log, from its next event, among
-- 10000 events of several lanes of its queue. A claim is found by its start time, which the claim and the event that
-- ended it store. So a claim is missing here if it ended in a purge, a seek, a deletion by time, or the deletion of its
-- group or queue; the view events shows it.
-- Locks: none. Errors: none.
create or replace function laneway.message_history(p_lane_id int, p_seq bigint)
returns table (
  event_id bigint, at timestamptz, action text, queue_id int, group_id int, attempt smallint, token uuid, consumer text,
  since timestamptz, reason text, detail json, messages bigint, xid xid8, message_segment int)
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
  with own as materialized (
    select w.* from laneway.events_of_message(p_lane_id, p_seq) w),
  spread_push as (
    select w.*
      from (select w.*
              from laneway.event w
             where w.part_lane is not null
               and w.queue_id = (select l.queue_id from laneway.lane l where l.lane_id = p_lane_id)
               and not exists (select from own o where o.action = 'pushed')
               and w.at <= coalesce(
                     (select m.created_at from laneway.message m where m.lane_id = p_lane_id and m.seq = p_seq),
                     (select min(o.at) from own o))
             order by w.at desc
             limit 10000) w
     where w.action = 'pushed'
       and exists (
         select from unnest(w.part_lane, w.part_first, w.part_last) p (lane_id, first_seq, last_seq)
          where p.lane_id = p_lane_id and p_seq between p.first_seq and p.last_seq)
     order by w.at desc
     limit 1),
  claim_start as (
    select o.queue_id, coalesce(p.since, o.since) as at
      from own o
      left join lateral unnest(o.part_first, o.part_last, o.part_since) p (first_seq, last_seq, since)
        on p_seq between p.first_seq and p.last_seq
    union
    select c.queue_id, c.claimed_at
      from laneway.reader r
      cross join lateral (
        select o.queue_id, o.claimed_at
          from laneway.claim o
         where o.reader_id = r.reader_id
           and o.first_seq between greatest(p_seq, 0) - 10000 and p_seq
           and o.last_seq >= p_seq
        offset 0) c
     where r.lane_id = p_lane_id),
  spread_claim as (
    select w.*
      from claim_start h
      cross join lateral (
        select w.*
          from laneway.event w
         where w.part_lane is not null
           and w.action = 'claimed'
           and w.queue_id = h.queue_id
           and w.at = h.at
        offset 0) w
     where exists (
       select from unnest(w.part_lane, w.part_first, w.part_last) p (lane_id, first_seq, last_seq)
        where p.lane_id = p_lane_id and p_seq between p.first_seq and p.last_seq))
  select e.event_id, e.at, e.action, e.queue_id, e.group_id, e.attempt, coalesce(p.token, e.token),
         coalesce(p.consumer, e.consumer), coalesce(p.since, e.since), e.reason, e.detail,
         coalesce(e.last_seq, p.last_seq) - coalesce(e.first_seq, p.first_seq) + 1, e.xid, e.message_segment
    from (select o.* from own o
          union all
          select s.* from spread_push s
          union all
          select c.* from spread_claim c) e
    left join lateral unnest(e.part_lane, e.part_first, e.part_last, e.part_token, e.part_consumer, e.part_since)
                      p (lane_id, first_seq, last_seq, token, consumer, since)
      on p_seq between p.first_seq and p.last_seq and coalesce(p.lane_id, p_lane_id) = p_lane_id
   where e.part_first is null or p.first_seq is not null
   order by e.xid, e.event_id;
$$;
