-- Claim the next messages of one lane of an ordered group for one waiter: at most p_want, of one segment, up to the
-- first delayed one. Messages of different attempts are parts of one claim.
-- All of them are leased for p_lease; if it is null, for the longest of their own lease durations.
-- p_first: the next message; p_upto: the last one before a gap. p_place, p_exceptions_until: of the reader's progress.
-- The caller has locked the reader, and has made sure that the lane is not leased.
-- Result: see claim_spans. Locks: none of its own. Errors: none.
create or replace function laneway.claim_lane(
  p_group_id int,
  p_reader_id int,
  p_lane_id int,
  p_segment int,
  p_first bigint,
  p_upto bigint,
  p_place tid,
  p_exceptions_until bigint,
  p_waiter int,
  p_want int,
  p_lease interval,
  p_consumer text)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_token uuid := gen_random_uuid();
  v_lane record;
  v_exceptions boolean := p_exceptions_until >= p_first; -- there may be retries and revisions
  v_last bigint;
  v_lease interval;
  v_parts record;                        -- arrays: spans of equal attempts
begin
  -- Part 1: find the last message, the lease duration, and the attempts.
  select l.partition, l.priority, q.queue_id, q.lease, q.record_events
    into v_lane
    from laneway.lane l
    join laneway.queue q on q.queue_id = l.queue_id
   where l.lane_id = p_lane_id;
  select max(r.seq), coalesce(p_lease, max(coalesce(r.lease, v_lane.lease)))
    into v_last, v_lease
    from (select m.seq, m.lease, bool_or(coalesce(m.deliver_at > v_now, false)) over (order by m.seq) as delayed
            from (select m.seq, m.lease, m.deliver_at
                    from laneway.message m
                   where m.segment = p_segment
                     and m.lane_id = p_lane_id
                     and m.seq >= p_first
                     and m.seq <= p_upto
                   order by m.seq
                   limit p_want) m) r
   where not r.delayed;
  if p_lease is null and v_exceptions then
    v_lease := (
      select max(coalesce(case when v.seq is null then m.lease else v.lease end, v_lane.lease))
        from laneway.message m
        left join lateral (
          select r.seq, r.lease
            from laneway.revision r
           where r.reader_id = p_reader_id
             and r.seq = m.seq) v on true
       where m.segment = p_segment
         and m.lane_id = p_lane_id
         and m.seq between p_first and v_last);
  end if;
  if v_exceptions then
    select array_agg(p.first_seq order by p.first_seq) as firsts, array_agg(p.last_seq order by p.first_seq) as lasts,
           array_agg(p.attempt order by p.first_seq) as attempts
      into v_parts
      from (select min(i.seq) as first_seq, max(i.seq) as last_seq,
                   least(coalesce(i.attempt, 0) + 1, 32767)::smallint as attempt
              from (select s.seq, t.attempt, s.seq - row_number() over (partition by t.attempt order by s.seq) as island
                      from generate_series(p_first, v_last) s (seq)
                      left join lateral (
                        select t.attempt
                          from laneway.retry t
                         where t.reader_id = p_reader_id
                           and t.seq = s.seq) t on true) i
             group by i.attempt, i.island) p;
  else
    select array[p_first] as firsts, array[v_last] as lasts, array[1::smallint] as attempts
      into v_parts;
  end if;

  -- Part 2: write. After it the reader has moved, and the claim's parts and their events are written.
  insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt,
                             aside, claimed_at, until, consumer, queue_id)
  select v_token, p.n - 1, p_reader_id, p_group_id, p_lane_id, p_segment, p.first_seq, p.last_seq,
         int8multirange(int8range(p.first_seq, p.last_seq, '[]')), p.attempt, false,
         v_now, v_now + v_lease, p_consumer, case when v_lane.record_events then v_lane.queue_id end
    from unnest(v_parts.firsts, v_parts.lasts, v_parts.attempts) with ordinality p (first_seq, last_seq, attempt, n);
  insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
  values (p_reader_id, p_segment, v_last, p_exceptions_until, v_token, v_now);
  delete from laneway.progress
   where ctid = p_place;
  if v_lane.record_events then
    perform laneway.insert_event('claimed', v_lane.queue_id, p_group_id, p_lane_id, p_segment, p.first_seq, p.last_seq,
                                 p.attempt, v_token, p_consumer, p_at => v_now)
       from unnest(v_parts.firsts, v_parts.lasts, v_parts.attempts) p (first_seq, last_seq, attempt);
  end if;

  -- Part 3: return the messages, as their revisions and retries have them.
  return query
    select p_waiter, v_token, p_segment, p_lane_id, p_first, v_lane.partition, v_lane.priority, 1::smallint,
           v_now + v_lease, null::int[],
           case when count(m.attempt) > 0 then array_agg(m.attempt) end,
           array_agg(m.created_at),
           case when count(m.lease) > 0 then array_agg(m.lease) end,
           case when count(m.max_attempts) > 0 then array_agg(m.max_attempts) end,
           case when count(m.key) > 0 then array_agg(m.key) end,
           case when count(m.headers) > 0 then array_agg(m.headers) end,
           array_agg(m.body),
           case when count(m.error) > 0 then array_agg(m.error) end
      from (select m.created_at, m.key,
                   case when v.body is null then m.lease else v.lease end as lease,
                   case when v.body is null then m.max_attempts else v.max_attempts end as max_attempts,
                   case when v.body is null then m.headers else v.headers end as headers,
                   coalesce(v.body, m.body) as body,
                   (t.attempt + (t.attempt < 32767)::int)::smallint as attempt, t.error
              from laneway.message m
              left join lateral (
                select r.lease, r.max_attempts, r.headers, r.body
                  from laneway.revision r
                 where v_exceptions
                   and r.reader_id = p_reader_id
                   and r.seq = m.seq) v on true
              left join lateral (
                select t.attempt, t.error
                  from laneway.retry t
                 where v_exceptions
                   and t.reader_id = p_reader_id
                   and t.seq = m.seq) t on true
             where m.segment = p_segment
               and m.lane_id = p_lane_id
               and m.seq between p_first and v_last
             order by m.seq) m;
end $$;
