-- Claim messages of a group for many waiting consumers: up to p_wants[i] for waiter i, by priority, then by age.
-- p_wants: 0 to 10,000 messages per waiter, 50,000 in total. p_leases: a lease duration per waiter; a null element
-- means the message's own, else the queue's. p_consumers: a name per waiter. Both arrays may be null.
-- p_partition, p_priority: claim only messages of these; null: of all.
-- p_alone: the call is the whole transaction. It commits asynchronously if the group's claims need not survive a crash
-- of PostgreSQL (consumer_group.durable_claims).
-- p_shared: waiters with the same lease duration and consumer may share one claim, which is cheaper. The caller must
-- then name the messages that it settles or extends.
-- p_avoid: partitions whose messages come after those of all others; not in ordered groups.
-- Result: a row per span of one lane (029_claimed_span.sql). No row: nothing can be claimed now.
-- This function checks the arguments and selects the algorithm. The fast ones need all messages in one segment, and no
-- delay, gap, or lease duration of a single message among those that they read.
-- An ordered group: claim_lanes. One lane has ready messages of the highest priority: the algorithm is here, with
-- lease_span and lease_span_per_waiter. Up to 32 lanes, merged by age: claim_merged_as_one under one token,
-- claim_merged_per_waiter with a token for each waiter. Everything else: claim_shared.
-- Locks: readers' advisory locks, rows of due parked messages and, in ordered groups, of expired claims, and lanes'
-- advisory locks to mark readers idle: all tried, through commit. It waits only as await_reader says.
-- Errors: LW404 unknown group; LW422 a number or lease duration out of range; LW503 other claims have locked every lane
-- that may have messages.
create or replace function laneway.claim_spans(
  p_group_id int,
  p_wants int[],
  p_leases interval[] default null,
  p_consumers text[] default null,
  p_partition text default null,
  p_priority smallint default null,
  p_alone boolean default false,
  p_shared boolean default false,
  p_avoid text[] default null)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_group record;                        -- with its first ready readers, by priority, then id
  v_waiters int := cardinality(p_wants);
  v_wanted int;                          -- by all waiters
  v_one_claim boolean := true;           -- the waiters can share one claim
  v_one_each boolean := false;           -- they can, and each of them wants one message
  v_lanes int;                           -- how many of the ready readers have the highest priority
  v_fast boolean;                        -- a fast algorithm applies, so far
  v_position record;                     -- of the one lane: how far the reader has claimed
  v_read record;                         -- of the one lane: what follows, as arrays
  v_now timestamptz;
  v_until timestamptz;
  v_token uuid;
  v_ignored text;
begin
  -- Part 1: find the group, its first ready lanes, and whether anything is parked.
  select g.queue_id, g.ordered, g.lease, g.record_events, g.durable_claims, r.readers, r.lanes, r.priorities,
         r.readers[1] as reader_id, r.lanes[1] as lane_id, r.priorities[1] as priority,
         (select k.priority
            from laneway.parked k
           where k.group_id = p_group_id
           order by k.priority desc
           limit 1) as parked_priority
    into v_group
    from laneway.consumer_group g
    cross join lateral (
      select array_agg(o.reader_id) as readers, array_agg(o.lane_id) as lanes, array_agg(o.priority) as priorities
        from (select o.reader_id, o.lane_id, o.priority
                from laneway.reader o
               where o.group_id = p_group_id
                 and o.ready
               order by o.priority desc, o.reader_id
               limit 33) o) r
   where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id
      using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  if p_alone and not v_group.durable_claims then
    -- Assigned, because `perform` costs four times as much.
    v_ignored := pg_catalog.set_config('synchronous_commit', 'off', true);
  end if;

  -- Part 2: check the arguments. The most frequent call, of one waiter without a lease duration, saves the function.
  if v_waiters = 1 and p_wants[1] between 1 and 10000 and p_leases is null then
    v_wanted := p_wants[1];
  else
    v_wanted := laneway.check_claim(p_wants, p_leases);
    if v_wanted = 0 then
      return;
    end if;
    if v_waiters > 1 then
      v_one_claim := p_shared and v_wanted <= 10000
        and (p_leases is null or p_leases = pg_catalog.array_fill(p_leases[1], array[v_waiters]))
        and (p_consumers is null or p_consumers = pg_catalog.array_fill(p_consumers[1], array[v_waiters]));
      v_one_each := v_one_claim and v_wanted = v_waiters and 1 = all (p_wants);
    end if;
  end if;

  if v_group.ordered then
    return query
      select (c.span).*
        from laneway.claim_lanes(
               p_group_id, p_wants, p_leases, p_consumers,
               case when p_partition is not null then array[p_partition] end, p_priority) c;
    return;
  end if;

  if p_avoid is not null then
    return query
      select * from laneway.claim_shared(
        p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority, p_avoid);
    return;
  end if;

  -- Part 3: select the algorithm. A fast one needs ready lanes, no filter, and no due parked message that comes before
  -- those of the lanes. To change how many lanes are merged, change 32 also in claim_lanes, claim_past_exceptions and
  -- ready_readers, and 33, which finds out whether there are more.
  v_now := clock_timestamp();
  v_fast := p_partition is null and p_priority is null and v_group.priority is not null;
  if v_fast and v_group.parked_priority >= v_group.priority then
    v_fast := v_group.parked_priority = v_group.priority
      and not exists (select from laneway.parked k
                       where k.group_id = p_group_id
                         and k.priority = v_group.priority
                         and k.available_at <= v_now);
  end if;
  if v_fast and v_group.priorities[2] = v_group.priority then
    v_fast := false;
    v_lanes := cardinality(pg_catalog.array_positions(v_group.priorities, v_group.priority));
    if v_lanes <= 32 then
      if v_waiters = 1 or v_one_each then
        return query
          select * from laneway.claim_merged_as_one(
            p_group_id, v_group.queue_id, v_group.readers[:v_lanes], v_group.lanes[:v_lanes], v_group.priority,
            p_leases[1], p_consumers[1], v_wanted, v_one_each,
            v_group.lease, v_group.record_events,
            v_lanes = cardinality(v_group.readers) and v_group.parked_priority is null);
      else
        return query
          select * from laneway.claim_merged_per_waiter(
            p_group_id, v_group.queue_id, v_group.readers[:v_lanes], v_group.lanes[:v_lanes], v_group.priority,
            p_wants, p_leases, p_consumers, v_wanted,
            v_group.lease, v_group.record_events,
            v_lanes = cardinality(v_group.readers) and v_group.parked_priority is null);
      end if;
      if found then
        return;
      end if;
    end if;
  end if;

  -- Part 4: one lane. Read what follows the reader's position. After it v_fast says whether that is what the group has
  -- to deliver next.
  v_fast := v_fast and laneway.try_lock_reader(v_group.reader_id);
  if v_fast then
    select p.place, p.segment, p.seq, p.exceptions_until, l.partition
      into v_position
      from laneway.lane l
      cross join lateral laneway.newest_progress(v_group.reader_id) p
     where l.lane_id = v_group.lane_id;
    -- A statement of its own: it opens one segment only, because the segment is a parameter.
    select count(*)::int as count, max(m.seq) as last_seq,
           count(m.lease) > 0 or max(m.deliver_at) > v_now as special,
           count(m.max_attempts) + count(m.key) + count(m.headers) = 0 as plain,
           array_agg(m.created_at) as created_at, array_agg(m.body) as bodies
      into v_read
      from (select m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.created_at, m.body
              from laneway.message m
             where m.segment = v_position.segment
               and m.lane_id = v_group.lane_id
               and m.seq > v_position.seq
               and m.seq <= v_position.seq + v_wanted
             order by m.seq) m;
    v_fast := v_position.exceptions_until <= v_position.seq
      and v_read.special is not true
      and (v_read.count = 0 or v_read.last_seq = v_position.seq + v_read.count);
    if v_fast and v_read.count < v_wanted then
      -- Fewer than wanted: only if nothing is parked, and neither another lane nor a later segment has more.
      v_fast := v_group.readers[2] is null and v_group.parked_priority is null;
      if v_fast then
        v_fast := not exists (select from laneway.segment s
                               where s.segment > v_position.segment
                                 and laneway.is_logged(s.segment) = laneway.is_logged(v_position.segment)
                                 and s.opened_at is not null);
      end if;
      if v_fast and v_read.count = 0 then
        v_fast := not exists (select from laneway.message m
                               where m.segment = v_position.segment
                                 and m.lane_id = v_group.lane_id
                                 and m.seq > v_position.seq);
        if v_fast then
          return;
        end if;
      end if;
    end if;
  end if;
  if v_fast is not true then
    return query
      select * from laneway.claim_shared(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
    return;
  end if;

  -- Part 5: one lane. Lease what was read, and return it. The bodies are not passed through another function where that
  -- can be avoided: it would copy them twice.
  if not v_one_claim then
    return query
      select * from laneway.lease_span_per_waiter(
        p_group_id, v_group.queue_id, v_group.reader_id, v_group.lane_id, v_position.partition, v_group.priority,
        v_position.segment, v_position.place, v_position.seq + 1, v_read.last_seq, p_wants, p_leases, p_consumers,
        v_group.lease, v_group.record_events, v_now, v_read.plain, v_read.created_at, v_read.bodies);
    return;
  end if;
  v_until := v_now + coalesce(p_leases[1], v_group.lease);
  v_token := laneway.lease_span(
    p_group_id, v_group.queue_id, v_group.reader_id, v_group.lane_id, v_position.segment, v_position.place,
    v_position.seq + 1, v_read.last_seq, p_wants, v_one_each, p_consumers[1], v_group.record_events, v_now, v_until);
  if v_read.plain then
    return next (
      0, v_token, v_position.segment, v_group.lane_id, v_position.seq + 1, v_position.partition, v_group.priority, 1,
      v_until, null, null, v_read.created_at, null, null, null, null, v_read.bodies, null)::laneway.claimed_span;
  else
    return query
      select 0, v_token, v_position.segment, v_group.lane_id, v_position.seq + 1, v_position.partition,
             v_group.priority, 1::smallint, v_until, null::int[], null::smallint[], array_agg(m.created_at),
             null::interval[], array_agg(m.max_attempts), array_agg(m.key), array_agg(m.headers), array_agg(m.body),
             null::text[]
        from (select m.created_at, m.max_attempts, m.key, m.headers, m.body
                from laneway.message m
               where m.segment = v_position.segment
                 and m.lane_id = v_group.lane_id
                 and m.seq > v_position.seq
                 and m.seq <= v_read.last_seq
               order by m.seq) m;
  end if;
end $$;
