-- Every kept message as each group sees it. The status is derived, so filter by queue or group, or, for one message, by
-- segment, lane_id and seq, the three numbers of its id. Some columns of an acknowledged message (consumer_id,
-- dequeued_at, acknowledged_at, attempt_count) are read from the events, row by row, if they are selected.
create or replace view laneway.messages as
  -- Messages in the log: queued, processing or acknowledged.
  select laneway.message_id(m.segment, m.lane_id, m.seq) as id, q.name as queue_name, g.name as group_name,
         coalesce(v.partition, l.partition) as type, coalesce(v.body, m.body) as payload,
         case when v.seq is null then m.headers else v.headers end as headers,
         coalesce(k.priority, v.priority, l.priority) as priority,
         case when s.acknowledged then 'acknowledged'
              when k.seq is null and c.token is not null then 'processing'
              else 'queued' end as status,
         coalesce(k.attempt,
                  case when c.aside then c.attempt end,
                  (t.attempt + case when c.token is not null or s.acknowledged then 1 else 0 end)::smallint,
                  c.attempt,
                  case when s.acknowledged then (
                    select e.attempt from laneway.last_ack(r.group_id, m.lane_id, m.seq) e) end,
                  0::smallint) as attempt_count,
         coalesce(case when v.seq is null then m.max_attempts else v.max_attempts end, q.max_attempts) as max_attempts,
         coalesce(case when v.seq is null then m.lease else v.lease end, q.lease) as ack_timeout,
         c.token as lock_token, c.until as locked_until,
         coalesce(c.consumer, case when s.acknowledged then (
           select e.consumer from laneway.last_ack(r.group_id, m.lane_id, m.seq) e) end) as consumer_id,
         m.created_at,
         coalesce(c.claimed_at, case when s.acknowledged then (
           select e.since from laneway.last_ack(r.group_id, m.lane_id, m.seq) e) end) as dequeued_at,
         case when s.acknowledged then (
           select e.at from laneway.last_ack(r.group_id, m.lane_id, m.seq) e) end as acknowledged_at,
         coalesce(k.error, t.error, c.error) as last_error,
         octet_length(coalesce(v.body, m.body)::text) as payload_size,
         coalesce(k.available_at, m.deliver_at) as available_at, m.key,
         q.queue_id, g.group_id, m.segment, m.lane_id, m.seq
    from laneway.message m
    join laneway.lane l on l.lane_id = m.lane_id
    join laneway.queue q on q.queue_id = l.queue_id
    join laneway.reader r on r.lane_id = m.lane_id
    join laneway.consumer_group g on g.group_id = r.group_id
    -- Not newest_progress: a view reads tables with its owner's rights, but a function with those of the caller.
    cross join lateral (
      select p.seq
        from laneway.progress p
       where p.reader_id = r.reader_id
       order by p.step desc
       limit 1) p
    left join laneway.parked k on k.reader_id = r.reader_id and k.seq = m.seq
    left join (
      select c.*, s.seq
        from laneway.claim c
        cross join lateral unnest(c.pending) u (range)
        cross join lateral generate_series(lower(u.range), upper(u.range) - 1) s (seq)) c
      on c.reader_id = r.reader_id and c.seq = m.seq
    -- Gaps do not overlap, so only the last one that starts at or before the message can cover it.
    left join lateral (
      select x.last_seq, x.gone
        from laneway.gap x
       where x.reader_id = r.reader_id
         and x.first_seq <= m.seq
       order by x.first_seq desc
       limit 1) x on true
    left join laneway.revision v on v.reader_id = r.reader_id and v.seq = m.seq
    left join laneway.retry t on t.reader_id = r.reader_id and t.seq = m.seq
    cross join lateral (
      select k.seq is null
             and c.token is null
             and (m.seq <= p.seq or coalesce(x.last_seq >= m.seq, false)) as acknowledged) s
   where (x.gone and x.last_seq >= m.seq) is not true
     and not exists (select from laneway.dead_letter d where d.reader_id = r.reader_id and d.seq = m.seq)
     and not exists (select from laneway.archive a where a.reader_id = r.reader_id and a.seq = m.seq)
  union all
  -- Parked or claimed messages that have left the log.
  select laneway.message_id(coalesce(k.segment, c.segment), r.lane_id, v.seq), q.name, g.name, v.partition, v.body,
         v.headers, coalesce(k.priority, v.priority), case when k.seq is not null then 'queued' else 'processing' end,
         coalesce(k.attempt, c.attempt), coalesce(v.max_attempts, q.max_attempts), coalesce(v.lease, q.lease),
         c.token, c.until, c.consumer, v.created_at, c.claimed_at, null, coalesce(k.error, c.error),
         octet_length(v.body::text), k.available_at, v.key,
         q.queue_id, g.group_id, coalesce(k.segment, c.segment), r.lane_id, v.seq
    from laneway.revision v
    join laneway.reader r on r.reader_id = v.reader_id
    join laneway.consumer_group g on g.group_id = r.group_id
    join laneway.queue q on q.queue_id = g.queue_id
    left join laneway.parked k on k.reader_id = v.reader_id and k.seq = v.seq
    left join lateral laneway.find_claim(v.reader_id, v.seq) c on c.token is not null
   where (k.seq is not null or c.token is not null)
     and not exists (
       select from laneway.message m
        where m.segment = coalesce(k.segment, c.segment)
          and m.lane_id = r.lane_id
          and m.seq = v.seq)
  union all
  -- Dead letters.
  select laneway.message_id(d.segment, d.lane_id, d.seq), q.name, g.name, d.partition, d.body, d.headers, d.priority,
         'dead', d.attempt, coalesce(d.attempt_limit, d.max_attempts, q.max_attempts), coalesce(d.lease, q.lease), null,
         null, d.consumer, d.created_at, null, null, d.reason, octet_length(d.body::text), null, d.key,
         q.queue_id, g.group_id, d.segment, d.lane_id, d.seq
    from laneway.dead_letter d
    join laneway.consumer_group g on g.group_id = d.group_id
    join laneway.queue q on q.queue_id = g.queue_id
  union all
  -- Archived messages.
  select laneway.message_id(a.segment, a.lane_id, a.seq), q.name, g.name, a.partition, a.body, a.headers, a.priority,
         'archived', a.attempt, coalesce(a.max_attempts, q.max_attempts), coalesce(a.lease, q.lease), null, null,
         a.consumer, a.created_at, null, null, a.reason, octet_length(a.body::text), null, a.key,
         q.queue_id, g.group_id, a.segment, a.lane_id, a.seq
    from laneway.archive a
    join laneway.consumer_group g on g.group_id = a.group_id
    join laneway.queue q on q.queue_id = g.queue_id;

comment on view laneway.messages is 'Every kept message as each group sees it.';
comment on column laneway.messages.type is 'The partition.';
comment on column laneway.messages.status is 'queued, processing, acknowledged, dead or archived.';
comment on column laneway.messages.ack_timeout is 'How long a lease lasts.';
comment on column laneway.messages.lock_token is 'The lease token, while the message is processing.';
comment on column laneway.messages.locked_until is 'The end of the lease.';
comment on column laneway.messages.dequeued_at is 'When the message was claimed.';
comment on column laneway.messages.payload_size is 'Bytes of the body as text.';
comment on column laneway.messages.available_at is 'From when on the message can be claimed; null for at once.';
comment on column laneway.messages.key is 'The dedup key.';
