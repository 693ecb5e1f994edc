-- Claim the oldest messages of several lanes of a shared group under one token: for one waiter, or for waiters of one
-- message each that share the claim. The waiter merges the lanes by age; each lane is one part of the claim.
-- Return no row, and change nothing, where the algorithm does not apply: a reader has gaps ahead or is in an older
-- segment, something read is delayed or has its own lease duration, or the lanes have fewer messages than wanted and
-- are not all.
-- p_readers, p_lanes: the lanes, of priority p_priority. p_lease_asked, p_consumer: of the waiters. p_wanted: messages
-- in total. p_one_each: each waiter wants one message. p_lease, p_record_events: of the group. p_all_lanes: the group
-- has no other ready lane and nothing parked.
-- Result: see claim_spans. Locks: see claim_spans. Errors: none.
create or replace function laneway.claim_merged_as_one(
  p_group_id int,
  p_queue_id int,
  p_readers int[],
  p_lanes int[],
  p_priority smallint,
  p_lease_asked interval,
  p_consumer text,
  p_wanted int,
  p_one_each boolean,
  p_lease interval,
  p_record_events boolean,
  p_all_lanes boolean)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_until timestamptz := v_now + coalesce(p_lease_asked, p_lease);
  v_token uuid;
  v_locked_elsewhere int[];              -- the readers that other transactions have locked
  v_readers int[] := p_readers;          -- those that this transaction has locked
  v_lanes int[] := p_lanes;
  v_position record;                     -- arrays: how far each has claimed
  v_read_limit int;                      -- messages read of each lane
  v_share record;                        -- arrays: the lanes that messages are claimed of, and from where to where
  v_lane_each int[];                     -- arrays: where each waiter's one message is, for the event
  v_seq_each bigint[];
begin
  -- Part 1: lock the lanes, then read the positions, in a statement after the locks.
  for i in 1..cardinality(p_readers) loop
    if not laneway.try_lock_reader(p_readers[i]) then
      v_locked_elsewhere := v_locked_elsewhere || p_readers[i];
    end if;
  end loop;
  if v_locked_elsewhere is not null then
    select array_agg(u.reader_id), array_agg(u.lane_id)
      into v_readers, v_lanes
      from unnest(p_readers, p_lanes) u (reader_id, lane_id)
     where u.reader_id <> all (v_locked_elsewhere);
    if v_readers is null then
      return;
    end if;
  end if;
  select array_agg(p.place) as places, array_agg(p.seq) as seqs, min(p.segment) as segment,
         bool_or(p.exceptions_until > p.seq) as has_exceptions,
         min(p.segment) <> (
           select n.segment
             from laneway.newest_segment(laneway.is_logged(min(p.segment))) n) as is_older
    into v_position
    from unnest(v_readers) u (reader_id)
    cross join lateral laneway.newest_progress(u.reader_id) p;
  if v_position.has_exceptions
     or v_position.is_older
     or cardinality(v_position.seqs) is distinct from cardinality(v_readers) then -- one was removed just now
    return;
  end if;

  -- Part 2: find the oldest p_wanted messages. Read of each lane somewhat more than its share. If one lane turns out to
  -- have more of the oldest messages than were read of it, read further.
  v_read_limit := least(p_wanted, p_wanted * 5 / (4 * cardinality(v_readers)) + 2);
  loop
    select array_agg(l.i) as i, array_agg(v_lanes[l.i]) as lanes,
           array_agg(v_position.seqs[l.i] + 1) as firsts, array_agg(l.last_seq) as lasts,
           sum(l.count) as count, max(l.count) as longest, bool_or(l.special) as special, bool_and(l.plain) as plain
      into v_share
      from (select o.i, max(o.seq) as last_seq, count(*) as count,
                   bool_or(o.deliver_at > v_now or o.lease is not null) as special,
                   bool_and(o.max_attempts is null and o.key is null and o.headers is null) as plain
              from (select u.i, m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers
                      from unnest(v_lanes, v_position.seqs) with ordinality u (lane_id, seq, i)
                      cross join lateral (
                        select m.seq, m.created_at, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers
                          from laneway.message m
                         where m.segment = v_position.segment
                           and m.lane_id = u.lane_id
                           and m.seq > u.seq
                           and m.seq <= u.seq + v_read_limit
                         order by m.seq) m
                     order by m.created_at, u.i, m.seq
                     limit p_wanted) o
             group by o.i) l;
    exit when v_share.longest < v_read_limit or v_read_limit = p_wanted or v_share.count is null;
    v_read_limit := least(p_wanted, v_read_limit * 3);
  end loop;
  if v_share.count is null
     or v_share.special
     or (v_share.count < p_wanted and not (p_all_lanes and cardinality(v_readers) = cardinality(p_readers))) then
    return;
  end if;

  -- Part 3: write and return. After it the readers have moved, and the claim's parts and its event are written.
  v_token := gen_random_uuid();
  if p_one_each then
    select array_agg(u.lane_id), array_agg(s.seq)
      into v_lane_each, v_seq_each
      from unnest(v_share.lanes, v_share.firsts, v_share.lasts) u (lane_id, first_seq, last_seq)
      cross join lateral generate_series(u.first_seq, u.last_seq) s (seq);
  end if;
  return query
    with span as materialized (
      select (u.i - 1)::smallint as part, v_readers[u.i] as reader_id, u.lane_id, v_position.places[u.i] as place,
             u.first_seq, u.last_seq, a.*
        from unnest(v_share.i, v_share.lanes, v_share.firsts, v_share.lasts) u (i, lane_id, first_seq, last_seq)
        cross join lateral (
          select array_agg(m.created_at) as created_at,
                 array_agg(m.max_attempts) filter (where not v_share.plain) as max_attempts,
                 array_agg(m.key) filter (where not v_share.plain) as keys,
                 array_agg(m.headers) filter (where not v_share.plain) as headers,
                 array_agg(m.body) as bodies
            from (select m.created_at, m.max_attempts, m.key, m.headers, m.body
                    from laneway.message m
                   where m.segment = v_position.segment
                     and m.lane_id = u.lane_id
                     and m.seq >= u.first_seq
                     and m.seq <= u.last_seq
                   order by m.seq) m) a),
    new_progress as (
      insert into laneway.progress (reader_id, segment, seq, moved_at)
      select s.reader_id, v_position.segment, s.last_seq, v_now
        from span s),
    old_progress as (
      delete from laneway.progress
       where ctid = any (array(select s.place from span s))),
    new_claim as (
      insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending,
                                 attempt, aside, claimed_at, until, consumer, queue_id)
      select v_token, s.part, s.reader_id, p_group_id, s.lane_id, v_position.segment, s.first_seq, s.last_seq,
             int8multirange(int8range(s.first_seq, s.last_seq, '[]')), 1,
             false, v_now, v_until, p_consumer, case when p_record_events then p_queue_id end
        from span s),
    new_event as (
      insert into laneway.event (segment, at, action, queue_id, group_id, message_segment, attempt, token, consumer,
                                 part_lane, part_first, part_last)
      select laneway.event_segment(v_position.segment), v_now, 'claimed', p_queue_id, p_group_id, v_position.segment, 1,
             v_token, p_consumer, coalesce(v_lane_each, v_share.lanes), coalesce(v_seq_each, v_share.firsts),
             coalesce(v_seq_each, v_share.lasts)
       where p_record_events)
    select 0, v_token, v_position.segment, s.lane_id, s.first_seq, l.partition, p_priority, 1::smallint, v_until,
           null::int[], null::smallint[], s.created_at, null::interval[], s.max_attempts, s.keys, s.headers, s.bodies,
           null::text[]
      from span s
      cross join lateral (select o.partition from laneway.lane o where o.lane_id = s.lane_id offset 0) l;
end $$;
