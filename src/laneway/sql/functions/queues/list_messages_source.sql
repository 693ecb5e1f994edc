-- Return the text of the query behind list_messages and count_messages for one state: all messages that match.
-- Its parameters: $1 types, $2 priority, $3 minimum attempts, $4 from, $5 to, $8 groups, $9 the limit for each lane or
-- group, $10 search. list_messages adds $6 limit and $7 offset.
-- p_acks: include what only events know about acknowledged messages. It is looked up for each message that matches, not
-- only for those of the page. $3 needs it.
-- Locks: none. Errors: LW422 an unknown state.
create or replace function laneway.list_messages_source(p_status text, p_descending boolean, p_acks boolean)
returns text
language plpgsql immutable
set search_path = ''
as $$
declare
  v_order text := case when p_descending then 'desc' else 'asc' end;

  -- Conditions on a message x.
  v_matches_search text := $q$(
    $10 is null
    or position(lower($10) in lower(x.body::text)) > 0
    or position(lower($10) in lower(x.partition)) > 0
    or laneway.message_id(x.segment, x.lane_id, x.seq) = $10)$q$;
  v_matches_time text := $q$($4 is null or x.created_at >= $4) and ($5 is null or x.created_at <= $5)$q$;
  v_matches_lane text := $q$($1 is null or x.partition = any ($1)) and ($2 is null or x.priority = $2)$q$;
  v_in_no_other_state text := $q$
        not exists (select from laneway.gap o
                     where o.reader_id = r.reader_id and o.first_seq <= x.seq and o.last_seq >= x.seq and o.gone)
    and not exists (select from laneway.parked k where k.reader_id = r.reader_id and k.seq = x.seq)
    and not exists (select from laneway.dead_letter d where d.reader_id = r.reader_id and d.seq = x.seq)
    and not exists (select from laneway.archive a where a.reader_id = r.reader_id and a.seq = x.seq)$q$;

  -- What a message m of the log looks like after the edit v, if it was edited.
  v_edited text := $q$
    case when v.seq is null then m.lease else v.lease end as lease,
    case when v.seq is null then m.max_attempts else v.max_attempts end as max_attempts,
    case when v.seq is null then m.headers else v.headers end as headers,
    case when v.seq is null then m.body else v.body end as body$q$;
  v_candidates text;
  v_source text;
begin
  if p_status is null or p_status not in ('queued', 'processing', 'acknowledged', 'dead', 'archived') then
    raise exception 'there is no state "%"', p_status
      using errcode = 'LW422', hint = 'States are queued, processing, acknowledged, dead and archived.';
  end if;

  -- Dead letters and archived messages: by group, from their table.
  if p_status in ('dead', 'archived') then
    v_source := format($q$
      select laneway.message_id(x.segment, x.lane_id, x.seq) as id, q.name as queue_name, g.name as group_name,
             x.partition as type, x.body as payload, x.headers, x.priority, '%1$s'::text as status,
             x.attempt as attempt_count, coalesce(%3$sx.max_attempts, q.max_attempts) as max_attempts,
             coalesce(x.lease, q.lease) as ack_timeout, null::uuid as lock_token, null::timestamptz as locked_until,
             x.consumer as consumer_id, x.created_at, null::timestamptz as dequeued_at,
             null::timestamptz as acknowledged_at, x.reason as last_error,
             octet_length(x.body::text) as payload_size, null::timestamptz as available_at, x.key, q.queue_id,
             g.group_id, x.segment, x.lane_id, x.seq
        from laneway.consumer_group g
        join laneway.queue q on q.queue_id = g.queue_id
        cross join lateral (
          select x.*
            from laneway.%2$I x
           where x.group_id = g.group_id
             and %4$s
             and ($3 is null or x.attempt >= $3)
             and %5$s
             and %6$s
           order by x.created_at %7$s, x.lane_id, x.seq %7$s
           limit $9) x
       where g.group_id = any ($8)$q$,
      p_status, case p_status when 'dead' then 'dead_letter' else 'archive' end,
      case p_status when 'dead' then 'x.attempt_limit, ' else '' end,
      v_matches_lane, v_matches_time, v_matches_search, v_order);

  -- Messages in flight: from the claims.
  elsif p_status = 'processing' then
    v_source := format($q$
      select laneway.message_id(c.segment, c.lane_id, s.seq) as id, q.name as queue_name, g.name as group_name,
             x.partition as type, x.body as payload, x.headers, x.priority, 'processing'::text as status,
             c.attempt as attempt_count, coalesce(x.max_attempts, q.max_attempts) as max_attempts,
             coalesce(x.lease, q.lease) as ack_timeout, c.token as lock_token, c.until as locked_until,
             c.consumer as consumer_id, x.created_at, c.claimed_at as dequeued_at,
             null::timestamptz as acknowledged_at,
             coalesce(c.error, (
               select t.error
                 from laneway.retry t
                where not c.aside
                  and t.reader_id = c.reader_id
                  and t.seq = s.seq)) as last_error,
             octet_length(x.body::text) as payload_size, null::timestamptz as available_at, x.key, q.queue_id,
             g.group_id, c.segment, c.lane_id, s.seq
        from laneway.consumer_group g
        join laneway.queue q on q.queue_id = g.queue_id
        join laneway.reader r on r.group_id = g.group_id
        join laneway.claim c on c.reader_id = r.reader_id
        cross join lateral unnest(c.pending) p (range)
        cross join lateral generate_series(lower(p.range), upper(p.range) - 1) s (seq)
        cross join lateral (
          select c.segment, c.lane_id, s.seq, o.*
            from laneway.message_content(c.reader_id, c.segment, c.lane_id, s.seq) o) x
       where g.group_id = any ($8)
         and %s$q$,
      v_matches_search);

  -- Queued and acknowledged messages: candidates of each lane (l) and its reader (r), whose position is p.seq.
  else
    if p_status = 'queued' then
      v_candidates := format($q$
        -- Ahead of the reader, in the log.
        (select x.segment, x.lane_id, x.seq, x.created_at, x.lease, x.max_attempts, x.key, x.headers, x.body,
                l.partition, l.priority, t.attempt, t.error, x.deliver_at as available_at
           from (select m.segment, m.lane_id, m.seq, m.created_at, m.deliver_at, m.key, l.partition, %4$s
                   from laneway.message m
                   left join laneway.revision v on v.reader_id = r.reader_id and v.seq = m.seq
                  where m.lane_id = l.lane_id
                    and m.seq > greatest(p.seq, b.low)
                    and m.seq <= b.high) x
           left join laneway.retry t on t.reader_id = r.reader_id and t.seq = x.seq
          where ($1 is null or l.partition = any ($1))
            and ($2 is null or l.priority = $2)
            and coalesce($3, 0) <= coalesce(t.attempt, 0)
            and %3$s
            and %1$s
            and not exists (
              select from laneway.gap o
               where o.reader_id = r.reader_id and o.first_seq <= x.seq and o.last_seq >= x.seq)
          order by x.seq %2$s
          limit $9)
        union all
        -- Parked. Limited by seq too, so that no more contents are looked up than are shown. Messages that have left
        -- the log (up to the lane's base) are older than all it has.
        (select x.segment, x.lane_id, x.seq, x.created_at, x.lease, x.max_attempts, x.key, x.headers, x.body,
                x.partition, x.priority, x.attempt, x.error, x.available_at
           from (select k.segment, k.lane_id, k.seq, k.attempt, k.error, k.available_at, o.created_at, o.lease,
                        o.max_attempts, o.key, o.headers, o.body, k.partition, k.priority
                   from laneway.parked k
                   cross join lateral laneway.message_content(k.reader_id, k.segment, k.lane_id, k.seq) o
                  where k.reader_id = r.reader_id
                    and k.seq > case when b.low > l.base then b.low else 0 end
                    and k.seq <= b.high
                    and ($1 is null or k.partition = any ($1))
                    and ($2 is null or k.priority = $2)
                    and k.attempt >= coalesce($3, 0)) x
          where %3$s
            and %1$s
          order by x.seq %2$s
          limit $9)$q$,
        v_matches_search, v_order, v_matches_time, v_edited);
    else
      v_candidates := format($q$
        -- Behind the reader. The most expensive condition comes last: whether a claim has the message.
        (select x.segment, x.lane_id, x.seq, x.created_at, x.lease, x.max_attempts, x.key, x.headers, x.body,
                x.partition, x.priority, null::smallint as attempt, null::text as error,
                null::timestamptz as available_at
           from (select x.*
                   from (select m.segment, m.lane_id, m.seq, m.created_at, m.key,
                                coalesce(v.partition, l.partition) as partition,
                                coalesce(v.priority, l.priority) as priority, %4$s
                           from laneway.message m
                           left join laneway.revision v on v.reader_id = r.reader_id and v.seq = m.seq
                          where m.lane_id = l.lane_id
                            and m.seq > greatest(l.base, b.low)
                            and m.seq <= least(p.seq, b.high)) x
                  where %5$s
                    and %3$s
                    and %6$s
                    and %1$s
                  order by x.seq %2$s
                 offset 0) x
          where (laneway.find_claim(r.reader_id, x.seq)).token is null
          order by x.seq %2$s
          limit $9)
        union all
        -- Ahead of the reader: settled before their turn.
        select x.segment, x.lane_id, x.seq, x.created_at, x.lease, x.max_attempts, x.key, x.headers, x.body,
               x.partition, x.priority, null, null, null
          from (select m.segment, m.lane_id, m.seq, m.created_at, m.key,
                       coalesce(v.partition, l.partition) as partition,
                       coalesce(v.priority, l.priority) as priority, %4$s
                  from laneway.gap o
                  join laneway.message m on m.lane_id = l.lane_id and m.seq = o.first_seq
                  left join laneway.revision v on v.reader_id = r.reader_id and v.seq = m.seq
                 where o.reader_id = r.reader_id
                   and o.first_seq > greatest(p.seq, b.low)
                   and o.first_seq <= b.high
                   and not o.gone) x
         where %5$s
           and %3$s
           and %6$s
           and %1$s
           and (laneway.find_claim(r.reader_id, x.seq)).token is null$q$,
        v_matches_search, v_order, v_matches_time, v_edited, v_matches_lane, v_in_no_other_state);
    end if;
    v_source := format($q$
      select laneway.message_id(x.segment, x.lane_id, x.seq) as id, q.name as queue_name, g.name as group_name,
             x.partition as type, x.body as payload, x.headers, x.priority, '%1$s'::text as status,
             coalesce(x.attempt, e.attempt, 0::smallint) as attempt_count,
             coalesce(x.max_attempts, q.max_attempts) as max_attempts, coalesce(x.lease, q.lease) as ack_timeout,
             null::uuid as lock_token, null::timestamptz as locked_until, e.consumer as consumer_id, x.created_at,
             e.since as dequeued_at, e.at as acknowledged_at, x.error as last_error,
             octet_length(x.body::text) as payload_size, x.available_at, x.key, q.queue_id, g.group_id, x.segment,
             x.lane_id, x.seq
        from laneway.consumer_group g
        join laneway.queue q on q.queue_id = g.queue_id
        join laneway.reader r on r.group_id = g.group_id
        join laneway.lane l on l.lane_id = r.lane_id
        cross join lateral laneway.newest_progress(r.reader_id) p
        -- A lane's times grow with its seqs, so a range of time is a range of seqs.
        cross join lateral (
          select case when $4 is null then 0
                      else laneway.seq_before(l.lane_id, q.kind <> 'unlogged', $4) end as low,
                 case when $5 is null then 9223372036854775807
                      else laneway.seq_before(
                             l.lane_id, q.kind <> 'unlogged',
                             least($5, '294276-12-31 23:59:59.999998+00') + interval '1 microsecond') end as high) b
        cross join lateral (%2$s) x
        left join lateral laneway.last_ack(g.group_id, x.lane_id, x.seq) e on %3$s
       where g.group_id = any ($8)$q$,
      p_status, v_candidates, case when p_acks and p_status = 'acknowledged' then 'true' else 'false' end);
  end if;

  return format($q$
    select m.*
      from (%s) m
     where ($1 is null or m.type = any ($1))
       and ($2 is null or m.priority = $2)
       and ($3 is null or m.attempt_count >= $3)
       and ($4 is null or m.created_at >= $4)
       and ($5 is null or m.created_at <= $5)$q$, v_source);
end $$;
