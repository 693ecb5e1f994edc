-- What happened to one message, oldest first, in the order of the transactions: event ids are given out in blocks.
-- Locks: none. Errors: none.
create or replace function laneway.history(p_lane_id int, p_seq bigint)
returns table (event_id bigint, at timestamptz, action text, queue_id int, group_id int, attempt smallint, token uuid, consumer text, since timestamptz, reason text, detail json, messages bigint,
  xid xid8, message_segment int)
language sql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
  select e.event_id, e.at, e.action, e.queue_id, e.group_id, e.attempt, coalesce(p.token, e.token), coalesce(p.consumer, e.consumer), coalesce(p.since, e.since), e.reason, e.detail,
         e.last_seq - e.first_seq + 1, e.xid, e.message_segment
    from (select w.* from laneway.event w where w.lane_id = p_lane_id and w.first_seq between p_seq - 10000 and p_seq and w.last_seq >= p_seq
          union all
          select w.* from laneway.event w where w.lane_id = p_lane_id and w.last_seq - w.first_seq >= 10000 and w.first_seq < p_seq - 10000 and w.last_seq >= p_seq) e
    left join lateral unnest(e.part_first, e.part_last, e.part_token, e.part_consumer, e.part_since) p (first_seq, last_seq, token, consumer, since) on p_seq between p.first_seq and p.last_seq
   where e.part_first is null or p.first_seq is not null
   order by e.xid, e.event_id;
$$;
