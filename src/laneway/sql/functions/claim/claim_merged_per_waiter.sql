-- Claim the oldest messages of several lanes of a shared group, merged by age, with one claim for each waiter. Each
-- lane is one part of the waiter's claim; `positions` gives the order of delivery.
-- Return no row, and change nothing, where the algorithm does not apply: a reader has gaps ahead or is in an older
-- segment, something read is delayed or has its own lease duration, or the lanes have fewer messages than wanted and
-- are not all.
-- p_readers, p_lanes: the lanes, of priority p_priority. p_wanted: messages wanted in total. p_lease, p_record_events:
-- of the group. p_all_lanes: the group has no other ready lane and nothing parked.
-- Other arguments and result: see claim_spans. Locks: see claim_spans. Errors: none.
create or replace function laneway.claim_merged_per_waiter(
  p_group_id int,
  p_queue_id int,
  p_readers int[],
  p_lanes int[],
  p_priority smallint,
  p_wants int[],
  p_leases interval[],
  p_consumers text[],
  p_wanted int,
  p_lease interval,
  p_record_events boolean,
  p_all_lanes boolean)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_seed text := gen_random_uuid()::text; -- of the waiters' tokens
  v_locked record;                       -- arrays: the lanes that this transaction has locked
  v_position record;                     -- arrays: how far each has been claimed
  v_read_limit int;                      -- messages read of each lane
begin
  -- Part 1: lock the lanes, then read the positions, in a statement after the locks.
  select array_agg(t.reader_id) as readers, array_agg(t.lane_id) as lanes
    into v_locked
    from (select u.reader_id, u.lane_id, laneway.try_lock_reader(u.reader_id) as locked
            from unnest(p_readers, p_lanes) u (reader_id, lane_id)
          offset 0) t
   where t.locked;
  if v_locked.readers is null then
    return;
  end if;
  select array_agg(p.place) as places, array_agg(p.seq) as seqs, min(p.segment) as segment,
         bool_or(p.exceptions_until > p.seq) as has_exceptions,
         min(p.segment) <> (
           select n.segment
             from laneway.newest_segment(laneway.is_logged(min(p.segment))) n) as is_older
    into v_position
    from unnest(v_locked.readers) u (reader_id)
    cross join lateral laneway.newest_progress(u.reader_id) p;
  if v_position.has_exceptions or v_position.is_older then
    return;
  end if;

  -- Part 2: read, write and return in one statement. `applies` decides; if it has no row, nothing is written.
  v_read_limit := least(p_wanted, p_wanted * 3 / (2 * cardinality(v_locked.readers)) + 3);
  return query
    with candidate as materialized (
      select u.i::int as i, m.*
        from unnest(v_locked.lanes, v_position.seqs) with ordinality u (lane_id, seq, i)
        cross join lateral (
          select m.seq, m.created_at, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.body
            from laneway.message m
           where m.segment = v_position.segment
             and m.lane_id = u.lane_id
             and m.seq > u.seq
             and m.seq <= u.seq + v_read_limit
           order by m.seq) m),
    -- A lane that was not read to its end may have more messages as old as the last that was read: claim nothing
    -- younger.
    horizon as materialized (
      select min(e.last_at) filter (where e.count = v_read_limit) as upto
        from (select c.i, count(*) as count, max(c.created_at) as last_at
                from candidate c
               group by c.i) e),
    picked as materialized (
      select c.*, row_number() over (order by c.created_at, c.i, c.seq)::int as n
        from candidate c, horizon h
       where c.created_at <= coalesce(h.upto, 'infinity')
       order by c.created_at, c.i, c.seq
       limit p_wanted),
    applies as materialized (
      select a.plain
        from (select bool_and(p.max_attempts is null and p.key is null and p.headers is null) as plain,
                     bool_or(p.deliver_at > v_now is true or p.lease is not null) as special,
                     count(*) as count
                from picked p) a
       where not a.special
         and (a.count = p_wanted
              or (p_all_lanes
                  and cardinality(v_locked.readers) = cardinality(p_readers)
                  and (select h.upto is null from horizon h)))),
    waiter as materialized (
      select w.i::int as i,
             sum(w.want) over (order by w.i) - w.want as low,
             sum(w.want) over (order by w.i) as high
        from unnest(p_wants) with ordinality w (want, i)),
    span as materialized (
      select left(encode(sha256((v_seed || g.waiter)::bytea), 'hex'), 32)::uuid as token,
             (row_number() over (partition by g.waiter order by v_locked.lanes[g.i]) - 1)::smallint as part,
             v_locked.readers[g.i] as reader_id, v_locked.lanes[g.i] as lane_id, g.*
        from (select w.i as waiter, p.i, min(p.seq) as first_seq, max(p.seq) as last_seq,
                     array_agg(p.n) as positions, array_agg(p.created_at) as created_at,
                     array_agg(p.max_attempts) filter (where not a.plain) as max_attempts,
                     array_agg(p.key) filter (where not a.plain) as keys,
                     array_agg(p.headers) filter (where not a.plain) as headers,
                     array_agg(p.body) as bodies
                from applies a
                cross join picked p
                join waiter w on p.n > w.low and p.n <= w.high
               group by w.i, p.i, a.plain) g),
    new_progress as (
      insert into laneway.progress (reader_id, segment, seq, moved_at)
      select s.reader_id, v_position.segment, max(s.last_seq), v_now
        from span s
       group by s.reader_id),
    old_progress as (
      delete from laneway.progress
       where ctid = any (array(select distinct v_position.places[s.i] from span s))),
    new_claim as (
      insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending,
                                 attempt, aside, claimed_at, until, consumer, queue_id)
      select s.token, s.part, s.reader_id, p_group_id, s.lane_id, v_position.segment, s.first_seq, s.last_seq,
             int8multirange(int8range(s.first_seq, s.last_seq, '[]')), 1, false, v_now,
             v_now + coalesce(p_leases[s.waiter], p_lease), p_consumers[s.waiter],
             case when p_record_events then p_queue_id end
        from span s),
    new_event as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
                                 attempt, token, consumer, part_first, part_last, part_token, part_consumer)
      select laneway.event_segment(v_position.segment), v_now, 'claimed', p_queue_id, p_group_id, e.lane_id,
             v_position.segment, e.first_seq, e.last_seq, 1,
             case when e.count = 1 then e.tokens[1] end, case when e.count = 1 then e.consumers[1] end,
             case when e.count > 1 then e.firsts end, case when e.count > 1 then e.lasts end,
             case when e.count > 1 then e.tokens end, case when e.count > 1 then e.consumers end
        from (select s.lane_id, count(*) as count, min(s.first_seq) as first_seq, max(s.last_seq) as last_seq,
                     array_agg(s.first_seq) as firsts, array_agg(s.last_seq) as lasts, array_agg(s.token) as tokens,
                     array_agg(p_consumers[s.waiter]) as consumers
                from span s
               group by s.lane_id) e
       where p_record_events)
    select s.waiter - 1, s.token, v_position.segment, s.lane_id, s.first_seq, l.partition, p_priority, 1::smallint,
           v_now + coalesce(p_leases[s.waiter], p_lease), s.positions, null::smallint[], s.created_at, null::interval[],
           s.max_attempts, s.keys, s.headers, s.bodies, null::text[]
      from span s
      cross join lateral (select o.partition from laneway.lane o where o.lane_id = s.lane_id offset 0) l;
end $$;
