-- Claim messages of an ordered group for many waiting consumers: each waiter gets the next messages of one lane that
-- is not leased, the lane with the oldest next message first (beyond 32 lanes: in turn). Lanes whose next message is
-- delayed or waits for a retry are skipped.
-- In FIFO queues (consumer_group.fifo), the lanes come in turn: the first is the one whose last claim, or whose next
-- message if that is younger, is the oldest. Beyond 32 lanes this is so among those that a call looks at.
-- p_fill: in FIFO queues, a waiter may get messages of several lanes, of each as many as it has. Each lane then has a
-- token of its own.
-- This is the fast algorithm. It finds the lanes' next messages in one statement, without locks; locks those that it
-- claims; then, in another statement, reads those that have not moved since and writes for all of them. It leaves
-- parked messages, retries, gaps and expired leases to claim_past_exceptions.
-- p_partitions: where to look; several are a hint only, to save looking where nothing is.
-- Other arguments: see claim_spans. Result: span: see claim_spans; more: whether its lane may have more to claim.
-- Locks: see claim_spans. Errors: see claim_spans.
create or replace function laneway.claim_lanes(
  p_group_id int,
  p_wants int[],
  p_leases interval[],
  p_consumers text[],
  p_partitions text[],
  p_priority smallint,
  p_alone boolean default false,
  p_fill boolean default false)
returns table (more boolean, span laneway.claimed_span)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  c_most_looked constant int := 1000;    -- lanes, where there are many
  v_now timestamptz := clock_timestamp();
  v_group record;
  v_waiting int[];                       -- the waiters that have no messages yet, from 1
  v_ready record;                        -- arrays: ready lanes
  v_many boolean;                        -- more than 32 lanes are ready: look at some at a time, from a random one on
  v_level smallint;                      -- then: their priority
  v_last_reader int;                     -- then: the last reader to look at
  v_start int;                           -- then: the reader that the claim began with
  v_after int;                           -- then: the readers up to this one were looked at
  v_limit int;                           -- then: how many lanes to look at next
  v_looked int := 0;                     -- then: how many were looked at
  v_free record;                         -- arrays: how far each ready lane has been claimed that is not leased
  v_next record;                         -- arrays: the next message of each, in the order in which lanes are claimed
  v_i int;                               -- where this claim is in v_next
  v_locked int[];                        -- which of v_next are locked …
  v_waiters int[];                       -- … for which waiter …
  v_wants int[];                         -- … and, with v_fill, how many messages it wants of them
  v_n int;                               -- the first of v_waiting that wants more lanes
  v_got int[];                           -- the waiters that were found to have messages
  v_waiter int;
  v_fill boolean;                        -- a waiter may get messages of several lanes
  v_ahead bigint;                        -- then: how many messages a lane has
  v_claimed int;
  v_lane int;
  v_position record;
  v_missed int[];                        -- the waiters whose lane another transaction claimed before it was locked
  v_any_missed boolean := false;
  v_any_claimed boolean := false;
  v_locked_elsewhere int;                -- a reader that another transaction has locked
  v_owns_lock boolean := false;          -- this transaction has locked a reader
  v_exception boolean;                   -- claim_past_exceptions has to go on
  v_ignored text;
begin
  -- Part 1: check the arguments and find the group.
  select g.queue_id, g.lease, g.record_events, g.durable_claims,
         exists (select from laneway.parked k where k.group_id = p_group_id) as has_parked,
         (select n.segment from laneway.newest_segment(true) n) as newest_segment, g.fifo
    into v_group
    from laneway.consumer_group g
   where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id
      using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  if p_alone and not v_group.durable_claims then
    v_ignored := pg_catalog.set_config('synchronous_commit', 'off', true); -- as in claim_spans
  end if;
  perform laneway.check_claim(p_wants, p_leases);
  v_waiting := array(select n from generate_subscripts(p_wants, 1) n where p_wants[n] > 0);
  v_fill := p_fill and v_group.fifo;

  -- Part 2: find the ready lanes. After it v_ready has all that are to be looked at, or v_many says that there are
  -- more.
  if p_partitions is null then
    select array_agg(r.reader_id) as readers, array_agg(r.lane_id) as lanes, array_agg(r.priority) as priorities
      into v_ready
      from (select o.reader_id, o.lane_id, o.priority
              from laneway.reader o
             where o.group_id = p_group_id
               and o.ready
               and (p_priority is null or o.priority = p_priority)
             order by o.priority desc, o.reader_id
             limit 33) r; -- one more than are claimed by age
  else
    select array_agg(r.reader_id) as readers, array_agg(r.lane_id) as lanes, array_agg(r.priority) as priorities
      into v_ready
      from unnest(p_partitions) u (partition)
      cross join lateral (
        select o.lane_id
          from laneway.lane o
         where o.queue_id = v_group.queue_id
           and o.partition = u.partition
        offset 0) l
      cross join lateral (
        select o.reader_id, o.lane_id, o.priority, o.ready
          from laneway.reader o
         where o.group_id = p_group_id
           and o.lane_id = l.lane_id
        offset 0) r
     where r.ready
       and (p_priority is null or r.priority = p_priority);
  end if;
  v_many := p_partitions is null and coalesce(cardinality(v_ready.readers) > 32, false);
  if v_many then
    select r.reader_id, r.priority
      into v_last_reader, v_level
      from laneway.reader r
     where r.group_id = p_group_id
       and r.ready
       and (p_priority is null or r.priority = p_priority)
     order by r.priority, r.reader_id desc
     limit 1;
    v_start := v_ready.readers[1] + floor(random() * (v_last_reader - v_ready.readers[1] + 1))::int;
    v_after := v_start - 1;
    v_limit := 2 + cardinality(v_waiting);
  end if;
  -- Many lanes of several priorities are an exception too.
  v_exception := v_group.has_parked or (v_many and v_level <> v_ready.priorities[1]);

  while not v_exception and cardinality(v_waiting) > 0 loop
    if v_many then
      select array_agg(r.reader_id) as readers, array_agg(r.lane_id) as lanes, array_agg(r.priority) as priorities
        into v_ready
        from (select o.reader_id, o.lane_id, o.priority
                from laneway.reader o
               where o.group_id = p_group_id
                 and o.ready
                 and o.priority = v_level
                 and o.reader_id > v_after
                 and o.reader_id <= v_last_reader
               order by o.reader_id
               limit v_limit) r;
      if v_ready.readers is null then
        exit when v_last_reader < v_start;
        v_last_reader := v_start - 1; -- from the first reader to the one before v_start
        v_after := 0;
        continue;
      end if;
      v_after := v_ready.readers[cardinality(v_ready.readers)];
    end if;

    -- Part 3: find the next messages. After it v_next has the lanes that can be claimed, that have an exception, or (of
    -- many) that have nothing.
    select array_agg(u.reader_id) as readers, array_agg(u.lane_id) as lanes, array_agg(u.priority) as priorities,
           array_agg(p.step) as steps, array_agg(p.segment) as segments, array_agg(p.seq) as seqs,
           array_agg(p.exceptions_until > p.seq or c.until is not null) as exceptions, min(p.segment) as oldest,
           array_agg(p.moved_at) filter (where v_group.fifo) as moved_at
      into v_free
      from unnest(v_ready.readers, v_ready.lanes, v_ready.priorities) u (reader_id, lane_id, priority)
      cross join lateral laneway.newest_progress(u.reader_id) p
      left join lateral (
        select max(c.until) as until
          from laneway.claim c
         where c.token = p.token
           and (not v_group.fifo or lower(c.pending) <= p.seq)) c on true
     where (p.not_before > v_now) is not true
       and (c.until > v_now) is not true;
    select array_agg(n.reader_id) as readers, array_agg(n.lane_id) as lanes, array_agg(n.priority) as priorities,
           array_agg(n.step) as steps, array_agg(n.segment) as segments, array_agg(n.seq) as seqs,
           array_agg(n.exception) as exceptions, array_agg(gen_random_uuid()) as tokens
      into v_next
      from (select u.reader_id, u.lane_id, u.priority, u.step, u.exception, m.segment, m.seq
              from unnest(v_free.readers, v_free.lanes, v_free.priorities, v_free.steps, v_free.segments, v_free.seqs,
                          v_free.exceptions, v_free.moved_at)
                   with ordinality u (reader_id, lane_id, priority, step, segment, seq, exception, moved_at, i)
              left join lateral (
                select m.segment, m.seq, m.created_at, (m.deliver_at > v_now) is true as delayed
                  from laneway.message m
                 where m.segment >= v_free.oldest
                   and m.segment <= v_group.newest_segment + 1
                   and m.segment >= u.segment
                   and m.lane_id = u.lane_id
                   and m.seq > u.seq
                 order by m.seq
                 limit 1) m on true
             where u.exception
                or (m.delayed is not true and (v_many or m.seq is not null))
             order by u.priority desc,
                      case when v_group.fifo or not v_many then greatest(u.moved_at, m.created_at) end,
                      u.i) n;

    v_i := 1;
    while not v_exception and cardinality(v_waiting) > 0 and v_i <= cardinality(v_next.readers) loop
      -- Part 4: lock a lane for each waiter, or several (v_fill), up to the first that has an exception. Mark those
      -- idle that have nothing.
      v_locked := '{}';
      v_waiters := '{}';
      v_wants := '{}';
      v_n := 1;
      while v_n <= cardinality(v_waiting) and v_i <= cardinality(v_next.readers) loop
        v_exception := v_next.exceptions[v_i];
        exit when v_exception;
        if not laneway.try_lock_reader(v_next.readers[v_i]) then
          v_locked_elsewhere := coalesce(v_locked_elsewhere, v_next.readers[v_i]);
        elsif v_next.seqs[v_i] is null then
          v_owns_lock := true;
          perform laneway.mark_reader_idle(v_next.readers[v_i], v_next.lanes[v_i]);
        else
          v_owns_lock := true;
          v_locked := v_locked || v_i;
          v_n := v_n + 1;
          if v_fill then
            v_waiter := v_waiting[v_n - 1];
            v_waiters := v_waiters || v_waiter;
            v_wants := v_wants || p_wants[v_waiter];
            if p_wants[v_waiter] > 1 then
              v_ahead := 1 - v_next.seqs[v_i] + (
                select m.seq
                  from laneway.message m
                 where m.segment = v_next.segments[v_i]
                   and m.lane_id = v_next.lanes[v_i]
                 order by m.seq desc
                 limit 1);
              if v_ahead < p_wants[v_waiter] then
                p_wants[v_waiter] := p_wants[v_waiter] - v_ahead;
                v_n := v_n - 1;
              end if;
            end if;
          end if;
        end if;
        v_i := v_i + 1;
      end loop;
      if not v_fill then
        v_waiters := v_waiting[:v_n - 1];
      end if;
      continue when cardinality(v_locked) = 0;

      -- Part 5: claim. After it all locked lanes are claimed whose progress row is still the one that part 3 read, and
      -- whose messages have neither a delay nor a lease duration of their own.
      return query
        with claimed as materialized (
          select v_waiters[u.i] as waiter, v_next.tokens[u.n] as token, v_next.readers[u.n] as reader_id,
                 v_next.lanes[u.n] as lane_id, v_next.segments[u.n] as segment, v_next.seqs[u.n] as first_seq,
                 v_next.priorities[u.n] as priority, coalesce(v_wants[u.i], p_wants[v_waiters[u.i]]) as wanted,
                 v_now + coalesce(p_leases[v_waiters[u.i]], v_group.lease) as until,
                 p_consumers[v_waiters[u.i]] as consumer, l.partition, p.place, p.exceptions_until, m.*
            from unnest(v_locked) with ordinality u (n, i)
            cross join lateral (select o.partition from laneway.lane o where o.lane_id = v_next.lanes[u.n] offset 0) l
            cross join lateral laneway.newest_progress(v_next.readers[u.n]) p
            cross join lateral (
              select max(m.seq) as last_seq,
                     bool_or(m.deliver_at > v_now or m.lease is not null) is true as special,
                     array_agg(m.created_at) as created_at,
                     case when count(m.max_attempts) > 0 then array_agg(m.max_attempts) end as max_attempts,
                     case when count(m.key) > 0 then array_agg(m.key) end as keys,
                     case when count(m.headers) > 0 then array_agg(m.headers) end as headers,
                     array_agg(m.body) as bodies
                from (select m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.created_at, m.body
                        from laneway.message m
                       where m.segment >= v_free.oldest
                         and m.segment <= v_group.newest_segment + 1
                         and m.segment = v_next.segments[u.n]
                         and m.lane_id = v_next.lanes[u.n]
                         and m.seq >= v_next.seqs[u.n]
                         and m.seq < v_next.seqs[u.n] + coalesce(v_wants[u.i], p_wants[v_waiters[u.i]])
                       order by m.seq) m) m
           where p.step = v_next.steps[u.n]
             and not m.special),
        new_progress as (
          insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
          select c.reader_id, c.segment, c.last_seq, c.exceptions_until, c.token, v_now
            from claimed c),
        old_progress as (
          delete from laneway.progress
           where ctid = any (array(select c.place from claimed c))),
        new_event as (
          insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq,
                                     last_seq, attempt, token, consumer)
          select v_group.newest_segment, v_now, 'claimed', v_group.queue_id, p_group_id, c.lane_id, c.segment,
                 c.first_seq, c.last_seq, 1, c.token, c.consumer
            from claimed c
           where v_group.record_events),
        new_claim as (
          insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending,
                                     attempt, aside, claimed_at, until, consumer, queue_id)
          select c.token, c.reader_id, p_group_id, c.lane_id, c.segment, c.first_seq, c.last_seq,
                 int8multirange(int8range(c.first_seq, c.last_seq, '[]')), 1,
                 false, v_now, c.until, c.consumer, case when v_group.record_events then v_group.queue_id end
            from claimed c)
        select cardinality(c.bodies) = c.wanted or c.segment / 2 < v_group.newest_segment / 2,
               (c.waiter - 1, c.token, c.segment, c.lane_id, c.first_seq, c.partition, c.priority, 1, c.until,
                null, null, c.created_at, null, c.max_attempts, c.keys, c.headers, c.bodies, null)::laneway.claimed_span
          from claimed c;
      get diagnostics v_claimed = row_count;
      v_any_claimed := v_any_claimed or v_claimed > 0;

      -- Part 6: claim the locked lanes that part 5 did not, one by one: their messages have a delay or a lease duration
      -- of their own. If instead another transaction has claimed a lane, its waiter goes on waiting.
      v_missed := '{}';
      v_got := '{}';
      if v_claimed < cardinality(v_locked) then
        for i in 1..cardinality(v_locked) loop
          v_lane := v_locked[i];
          select p.place, p.step, p.token, p.exceptions_until
            into v_position
            from laneway.newest_progress(v_next.readers[v_lane]) p;
          if v_position.step = v_next.steps[v_lane] then
            v_any_claimed := true;
            v_got := v_got || v_waiters[i];
            return query
              select true, c
                from laneway.claim_lane(
                       p_group_id, v_next.readers[v_lane], v_next.lanes[v_lane], v_next.segments[v_lane],
                       v_next.seqs[v_lane], 9223372036854775807, v_position.place, v_position.exceptions_until,
                       v_waiters[i] - 1, coalesce(v_wants[i], p_wants[v_waiters[i]]), p_leases[v_waiters[i]],
                       p_consumers[v_waiters[i]]) c;
          elsif v_position.token = v_next.tokens[v_lane] then
            v_got := v_got || v_waiters[i];
          elsif v_waiters[i] <> all (v_missed || v_waiting[v_n:]) then
            v_missed := v_missed || v_waiters[i];
            p_wants[v_waiters[i]] := coalesce(v_wants[i], p_wants[v_waiters[i]]);
          end if;
        end loop;
        -- What a waiter did not get of one lane it need not get of another.
        v_missed := array(select m from unnest(v_missed) m where m <> all (v_got));
      end if;
      v_any_missed := v_any_missed or cardinality(v_missed) > 0;
      v_waiting := v_missed || v_waiting[v_n:];
    end loop;
    v_looked := v_looked + cardinality(v_ready.readers);
    exit when not v_many or v_looked >= c_most_looked;
    v_limit := least(2 * v_limit, 256);
  end loop;

  -- Part 7: go on past an exception; or, where nothing was claimed because of other transactions, wait for one of them
  -- and begin again.
  if v_exception then
    return query
      select true, c
        from laneway.claim_past_exceptions(
               p_group_id,
               array(select case when n = any (v_waiting) then p_wants[n] else 0 end
                       from generate_subscripts(p_wants, 1) n),
               p_leases, p_consumers, case when cardinality(p_partitions) = 1 then p_partitions[1] end, p_priority,
               v_fill, v_owns_lock, v_any_claimed) c;
  elsif not v_any_claimed and (v_locked_elsewhere is not null or v_any_missed) then
    perform laneway.await_reader(p_group_id, v_locked_elsewhere, v_owns_lock);
    return query
      select * from laneway.claim_lanes(
        p_group_id, p_wants, p_leases, p_consumers, p_partitions, p_priority, p_alone, p_fill);
  end if;
end $$;
