-- Return the events since p_seen, for detectors: a row for each span of messages of one lane and claim, in the order of
-- the transactions. Consumers that share a claim count as one.
-- p_seen: the snapshot of the previous call. Transactions that were in progress in it are looked up by their ids, so no
-- event is missed however late it commits, and a long transaction does not delay the others.
-- p_limit: return at least this many later events, if they exist; the events of one transaction are never split.
-- p_large: a body of more bytes is large. large_seqs and large_sizes list the ten largest of a push.
-- Result: now is the snapshot of this call. A push to more than ten lanes without large bodies is one row without a
-- lane; spread is its number of messages.
-- Locks: none. Errors: none.
create or replace function laneway.follow_events(p_seen pg_snapshot, p_limit int, p_large int)
returns table (
  now pg_snapshot, xid xid8, event_id bigint, at timestamptz, kind text, queue_id int, queue_name text, group_name text,
  type text, priority smallint, message_segment int, lane_id int, first_seq bigint, last_seq bigint, attempt smallint,
  token uuid, consumer text, since timestamptz, reason text, detail json, first_created timestamptz,
  last_created timestamptz, max_attempts smallint, lease interval, large_seqs bigint[], large_sizes int[],
  spread bigint)
language sql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
  with late as materialized (
    select e.*
      from laneway.event e
     where e.xid = any (array(select x from pg_catalog.pg_snapshot_xip(p_seen) x))),
  following as materialized (
    select e.*
      from laneway.event e
     where e.xid >= pg_catalog.pg_snapshot_xmax(p_seen)
     order by e.xid
     fetch first (greatest(p_limit, 0)) rows with ties),
  seen as materialized (
    select l.*, l.small and cardinality(l.part_lane) > 10 as whole
      from (select l.*, l.largest <= p_large as small from late l
            union all
            select n.*, n.largest <= p_large from following n) l),
  found as (
    select f.*, f.lane_id as run_lane, f.first_seq as run_first, f.last_seq as run_last, f.token as run_token,
           f.consumer as run_consumer, f.since as run_since
      from seen f
     where f.part_first is null or f.whole
    union all
    select f.*, coalesce(p.lane_id, f.lane_id), coalesce(p.first_seq, f.first_seq), coalesce(p.last_seq, f.last_seq),
           coalesce(p.token, f.token), coalesce(p.consumer, f.consumer), coalesce(p.since, f.since)
      from (select f.*
              from seen f
             where f.part_first is not null and f.whole is not true
            offset 0) f
      cross join lateral (
        select c.lane_id, lower(r.range) as first_seq, upper(r.range) - 1 as last_seq, c.token, c.consumer, c.since
          from (select u.lane_id, u.token, u.consumer, u.since,
                       range_agg(int8range(u.first_seq, u.last_seq, '[]')) as seqs
                  from unnest(f.part_lane, f.part_first, f.part_last, f.part_token, f.part_consumer, f.part_since)
                       u (lane_id, first_seq, last_seq, token, consumer, since)
                 group by u.lane_id, u.token, u.consumer, u.since) c
          cross join lateral unnest(c.seqs) r (range)) p)
  select pg_catalog.pg_current_snapshot(), f.xid, f.event_id, f.at, laneway.event_kind(f.action, f.detail), f.queue_id,
         coalesce(q.name, f.detail ->> 'name'), g.name, l.partition, l.priority, f.message_segment,
         f.run_lane, f.run_first, f.run_last, f.attempt, f.run_token, f.run_consumer, f.run_since, f.reason, f.detail,
         h.created_at, t.created_at, coalesce(h.max_attempts, q.max_attempts), coalesce(h.lease, q.lease),
         b.seqs, b.sizes,
         case when f.whole then (
           select sum(u.last_seq - u.first_seq + 1)::bigint
             from unnest(f.part_first, f.part_last) u (first_seq, last_seq)) end
    from found f
    left join laneway.queue q on q.queue_id = f.queue_id
    left join laneway.consumer_group g on g.group_id = f.group_id
    left join laneway.lane l on l.lane_id = f.run_lane
    -- The limit makes PostgreSQL look up one message by its key; a plain join would read the whole lane.
    left join lateral (
      select m.created_at, m.max_attempts, m.lease
        from laneway.message m
       where m.segment = f.message_segment
         and m.lane_id = f.run_lane
         and m.seq = f.run_first
       limit 1) h on true
    left join lateral (
      select m.created_at
        from laneway.message m
       where f.action = 'claimed'
         and m.segment = f.message_segment
         and m.lane_id = f.run_lane
         and m.seq = f.run_last
       limit 1) t on true
    left join lateral (
      select array_agg(m.seq order by m.size desc, m.seq) as seqs,
             array_agg(m.size order by m.size desc, m.seq) as sizes
        from (select m.seq, octet_length(m.body::text) as size
                from laneway.message m
               where f.action = 'pushed'
                 and f.small is not true
                 and m.segment = f.message_segment
                 and m.lane_id = f.run_lane
                 and m.seq between f.run_first and f.run_last
                 -- A stored body can be larger than its size on disk only if it is compressed. Decompress no others.
                 and (pg_catalog.pg_column_size(m.body) > p_large
                      or pg_catalog.pg_column_compression(m.body) is not null)
                 and octet_length(m.body::text) > p_large
               order by 2 desc, 1
               limit 10) m) b on true
   order by f.xid, f.event_id, f.run_lane, f.run_first;
$$;
