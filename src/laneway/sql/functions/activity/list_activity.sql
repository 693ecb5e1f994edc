-- Return the activity log, newest first: an entry for each message, filtered and paged, and the number of entries,
-- counted up to p_bound. An entry without a seq is about a queue.
-- Shows events that are within their retention and were not cleared. Reads the newest 200000 events at most, which
-- bounds the cost of a filter that matches rarely. With p_anomalous or p_anomaly_type it reads from the anomalies
-- instead.
-- There is always one row at least, for the total.
-- Locks: none. Errors: none.
create or replace function laneway.list_activity(
  p_queue_ids int[] default null, p_kinds text[] default null, p_consumer text default null,
  p_from timestamptz default null, p_to timestamptz default null, p_anomalous boolean default null,
  p_anomaly_type text default null, p_limit int default 100, p_offset int default 0, p_bound int default 10000)
returns table (
  total int, xid xid8, event_id bigint, at timestamptz, kind text, queue_name text, group_name text, type text,
  priority smallint, message_segment int, lane_id int, seq bigint, batch bigint, attempt smallint, token uuid,
  consumer text, since timestamptz, reason text, detail json)
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  with since as materialized (
    select a.cleared, greatest(p_from, clock_timestamp() - p.event_retention) as at
      from laneway.activity a, laneway.policy p),
  plain as (
    select v.*, s.seq
      from (select w.*
              from laneway.events w
             where p_anomalous is not true
               and p_anomaly_type is null
               and w.xid >= (select c.cleared from since c)
             order by w.xid desc, w.event_id desc
             limit 200000) v
      left join lateral generate_series(v.first_seq, v.last_seq) s (seq) on true
     where v.at >= (select c.at from since c)
       and (p_to is null or v.at <= p_to)
       and (p_queue_ids is null or v.queue_id = any (p_queue_ids))
       and (p_consumer is null or v.consumer = p_consumer)
       and (p_kinds is null or laneway.event_kind(v.action, v.detail) = any (p_kinds))
       and (p_anomalous is null
            or not exists (
              select from laneway.anomaly a
               where a.xid = v.xid
                 and a.event_id = v.event_id
                 and (a.seqs is null or (a.lane_id = v.lane_id and a.seqs @> s.seq))))
     order by v.xid desc, v.event_id desc, v.lane_id, v.first_seq
     limit greatest(p_bound, p_offset::bigint + p_limit, 0)),
  anomalous as (
    -- Each event once, with the seqs of its anomalies by lane.
    select v.*, s.seq
      from (select a.xid, a.event_id, bool_or(a.whole) as whole, array_agg(a.lane_id) as lanes,
                   array_agg(a.seqs) as seqs
              from (select a.xid, a.event_id, a.lane_id, bool_or(a.seqs is null) as whole, range_agg(a.seqs) as seqs
                      from (select a.xid, a.event_id, a.lane_id, a.seqs
                              from laneway.anomaly a
                             where (p_anomalous or p_anomaly_type is not null)
                               and p_anomalous is distinct from false
                               and (p_anomaly_type is null or a.type = p_anomaly_type)
                               and a.xid >= (select c.cleared from since c)
                             order by a.xid desc, a.event_id desc
                             limit greatest(p_bound, p_offset::bigint + p_limit, 0)) a
                     group by a.xid, a.event_id, a.lane_id) a
             group by a.xid, a.event_id) a
      cross join lateral (
        select e.*
          from laneway.events e
         where e.xid = a.xid and e.event_id = a.event_id
        offset 0) v
      left join lateral generate_series(v.first_seq, v.last_seq) s (seq) on true
     where v.at >= (select c.at from since c)
       and (p_to is null or v.at <= p_to)
       and (p_queue_ids is null or v.queue_id = any (p_queue_ids))
       and (p_consumer is null or v.consumer = p_consumer)
       and (p_kinds is null or laneway.event_kind(v.action, v.detail) = any (p_kinds))
       and (a.whole or s.seq is null or a.seqs[array_position(a.lanes, v.lane_id)] @> s.seq)
     order by v.xid desc, v.event_id desc, v.lane_id, s.seq
     limit greatest(p_bound, p_offset::bigint + p_limit, 0)),
  entry as materialized (
    select n.* from plain n
    union all
    select m.* from anomalous m),
  page as (
    select y.*
      from entry y
     order by y.xid desc, y.event_id desc, y.lane_id, y.seq
     limit greatest(p_limit, 0) offset greatest(p_offset, 0))
  select (select count(*)::int from entry), y.xid, y.event_id, y.at, laneway.event_kind(y.action, y.detail),
         coalesce(q.name, y.detail ->> 'name'), g.name, l.partition, l.priority, y.message_segment, y.lane_id, y.seq,
         coalesce((case when y.action in ('moved', 'deleted') then y.detail ->> 'of' end)::bigint,
                  y.last_seq - y.first_seq + 1),
         y.attempt, y.token, y.consumer, y.since, y.reason, y.detail
    from (select) one
    left join page y on true
    left join laneway.queue q on q.queue_id = y.queue_id
    left join laneway.consumer_group g on g.group_id = y.group_id
    left join laneway.lane l on l.lane_id = y.lane_id
   order by y.xid desc, y.event_id desc, y.lane_id, y.seq;
$$;
