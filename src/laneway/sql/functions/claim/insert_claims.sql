-- Lease picked messages to waiters: insert the claims and their events, and return the spans with their content.
-- p_picked: the messages in the order of delivery; the first p_wants[1] go to the first waiter, and so on.
-- p_lease, p_record_events: of the group. p_now: when the leases begin.
-- The spans of one waiter are parts of one claim, so one token settles and extends all of them. Parts are numbered in
-- the order in which claims are locked; `positions` gives the order of delivery.
-- Other arguments and result: see claim_spans. Locks: none of its own. Errors: none.
create or replace function laneway.insert_claims(
  p_group_id int,
  p_queue_id int,
  p_picked laneway.picked_message[],
  p_wants int[],
  p_leases interval[],
  p_consumers text[],
  p_lease interval,
  p_record_events boolean,
  p_now timestamptz)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_seed text := gen_random_uuid()::text; -- of the waiters' tokens
begin
  return query
    with waiter as (
      select w.i, sum(w.want) over (order by w.i) - w.want as low, sum(w.want) over (order by w.i) as high
        from unnest(p_wants) with ordinality w (want, i)),
    assigned as (
      select x.reader_id, x.lane_id, x.segment, x.seq, x.attempt, x.aside, x.error, x.n, w.i::int as waiter,
             coalesce(p_leases[w.i], x.lease, p_lease) as lease
        from unnest(p_picked) with ordinality x (reader_id, lane_id, segment, seq, attempt, aside, lease, error, n)
        join waiter w on x.n > w.low and x.n <= w.high),
    -- Consecutive seqs that are alike in all else have the same difference to their rank. Each parked message is a span
    -- of its own, because it has its own error.
    numbered as (
      select a.*,
             case when a.aside then a.n end as parked_n,
             a.seq - row_number() over (
                       partition by a.waiter, a.reader_id, a.segment, a.attempt, a.aside, a.lease
                       order by a.seq) as island
        from assigned a),
    span as materialized (
      select left(encode(sha256((v_seed || s.waiter)::bytea), 'hex'), 32)::uuid as token,
             (row_number() over (partition by s.waiter order by s.lane_id, min(s.seq)) - 1)::smallint as part,
             s.waiter, s.reader_id, s.lane_id, s.segment, s.attempt, s.aside, s.lease, min(s.error) as error,
             min(s.seq) as first_seq, max(s.seq) as last_seq, array_agg(s.n::int order by s.seq) as positions
        from numbered s
       group by s.waiter, s.reader_id, s.lane_id, s.segment, s.attempt, s.aside, s.lease, s.parked_n,
                s.island),
    new_claim as (
      insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending,
                                 attempt, aside, claimed_at, until, consumer, error, queue_id)
      select s.token, s.part, s.reader_id, p_group_id, s.lane_id, s.segment, s.first_seq, s.last_seq,
             int8multirange(int8range(s.first_seq, s.last_seq, '[]')), s.attempt,
             s.aside, p_now, p_now + s.lease, p_consumers[s.waiter], s.error,
             case when p_record_events then p_queue_id end
        from span s),
    new_event as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
                                 attempt, token, consumer, part_first, part_last, part_token, part_consumer)
      select (select n.segment from laneway.newest_segment(true) n), p_now, 'claimed', p_queue_id, p_group_id,
             e.lane_id, e.segment, e.first_seq, e.last_seq, e.attempt,
             case when e.count = 1 then e.tokens[1] end, case when e.count = 1 then e.consumers[1] end,
             case when e.count > 1 then e.firsts end, case when e.count > 1 then e.lasts end,
             case when e.count > 1 then e.tokens end, case when e.count > 1 then e.consumers end
        from (select s.lane_id, s.segment, s.attempt, count(*) as count,
                     min(s.first_seq) as first_seq, max(s.last_seq) as last_seq,
                     array_agg(s.first_seq) as firsts, array_agg(s.last_seq) as lasts,
                     array_agg(s.token) as tokens, array_agg(p_consumers[s.waiter]) as consumers
                from span s
               where p_record_events
               group by s.lane_id, s.segment, s.attempt) e)
    select s.waiter - 1, s.token, s.segment, s.lane_id, s.first_seq, m.partition, m.priority, s.attempt,
           p_now + s.lease, s.positions, null::smallint[], m.created_at, m.leases, m.max_attempts, m.keys, m.headers,
           m.bodies, case when s.error is not null then array[s.error] end
      from span s
      cross join lateral (
        -- In turn: the log has the content.
        select l.partition, l.priority, a.*
          from laneway.lane l
          cross join lateral (
            select array_agg(m.created_at) as created_at,
                   case when count(m.lease) > 0 then array_agg(m.lease) end as leases,
                   case when count(m.max_attempts) > 0 then array_agg(m.max_attempts) end as max_attempts,
                   case when count(m.key) > 0 then array_agg(m.key) end as keys,
                   case when count(m.headers) > 0 then array_agg(m.headers) end as headers,
                   array_agg(m.body) as bodies
              from (select m.created_at, m.lease, m.max_attempts, m.key, m.headers, m.body
                      from laneway.message m
                     where m.segment = s.segment
                       and m.lane_id = s.lane_id
                       and m.seq between s.first_seq and s.last_seq
                     order by m.seq) m) a
         where not s.aside
           and l.lane_id = s.lane_id
        union all
        -- Out of turn: a revision may have it.
        select min(c.partition), min(c.priority), array_agg(c.created_at order by q.seq),
               array_agg(c.lease order by q.seq), array_agg(c.max_attempts order by q.seq),
               array_agg(c.key order by q.seq), array_agg(c.headers order by q.seq), array_agg(c.body order by q.seq)
          from generate_series(s.first_seq, s.last_seq) q (seq)
          cross join lateral laneway.message_content(s.reader_id, s.segment, s.lane_id, q.seq) c
         where s.aside
        having count(*) > 0) m
     where m.bodies is not null
     order by s.positions[1];
end $$;
