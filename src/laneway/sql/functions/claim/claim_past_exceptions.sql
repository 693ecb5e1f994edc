-- Claim messages of an ordered group where claim_lanes meets an exception: parked messages, retries, gaps, an expired
-- lease, or more than 32 lanes of several priorities. Looks at the lanes one by one, under their locks.
-- In FIFO queues (consumer_group.fifo) a lane may have several leases. Messages are claimed only up to the first that
-- is leased.
-- p_fill: see claim_lanes. p_owns_lock: the caller has locked readers. p_any_claimed: it has claimed something, so this
-- call need not wait for a lock.
-- Other arguments and result: see claim_spans. Locks: see claim_spans. Errors: see claim_spans.
create or replace function laneway.claim_past_exceptions(
  p_group_id int,
  p_wants int[],
  p_leases interval[],
  p_consumers text[],
  p_partition text,
  p_priority smallint,
  p_fill boolean default false,
  p_owns_lock boolean default false,
  p_any_claimed boolean default false)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  c_no_end constant bigint := 9223372036854775807;
  c_passes constant int := 20;           -- at one priority, where there are more than 32 lanes
  v_group record;
  v_now timestamptz := clock_timestamp();
  v_has_parked boolean;
  v_waiting int[];                       -- the waiters that want messages, from 1, in order
  v_served int := 0;                     -- how many of them have messages
  v_waiter int;
  v_below int := 32768;                  -- the priorities from this one up are done
  v_passes int := 0;
  v_ready record;                        -- the lanes to look at, of the highest priority that has any
  v_parked_level int;                    -- the highest priority of due parked messages
  v_looked int[] := '{}';                -- the readers that were looked at
  v_locked_elsewhere int;                -- a reader that another transaction has locked
  v_owns_lock boolean := p_owns_lock;    -- this transaction has locked a reader
  v_position record;
  v_upto bigint;
  v_leased bigint;                       -- FIFO queues: the first message of the lane that is leased
  v_seq bigint;
  v_lane record;
  v_span laneway.claimed_span;
  v_claimed int;
  v_any_claimed boolean := false;
  v_oldest int;                          -- the oldest segment that one of the locked lanes is in
  -- The locked lanes: not leased, nothing due parked.
  v_readers int[];
  v_lanes int[];
  v_places tid[];
  v_segments int[];
  v_froms bigint[];                      -- after which and up to which message to read
  v_uptos bigint[];
  v_exceptions_until bigint[];
  v_moved_at timestamptz[];
begin
  p_wants := laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers);
  v_waiting := array(select n from generate_subscripts(p_wants, 1) n where p_wants[n] > 0 order by n);
  select g.queue_id, g.fifo
    into v_group
    from laneway.consumer_group g
   where g.group_id = p_group_id;
  v_has_parked := exists (select from laneway.parked k where k.group_id = p_group_id);
  while v_served < cardinality(v_waiting) loop
    -- Part 1: find lanes of the highest priority that is not done: ready ones, and those of due parked messages, which
    -- may be idle.
    v_ready := laneway.ready_readers(p_group_id, v_group.queue_id, p_partition, p_priority, v_below, 32);
    if v_has_parked then
      v_parked_level := (
        select max(k.priority)
          from laneway.parked k
         where k.group_id = p_group_id
           and k.available_at <= v_now
           and (p_partition is null or k.partition = p_partition)
           and (p_priority is null or k.priority = p_priority)
           and k.priority < v_below);
      if v_parked_level > v_ready.level then
        v_ready.readers := '{}';
        v_ready.lanes := '{}';
        v_ready.many := false;
      end if;
      v_ready.level := greatest(v_ready.level, v_parked_level);
      select v_ready.readers || array_agg(d.reader_id order by d.reader_id),
             v_ready.lanes || array_agg(d.lane_id order by d.reader_id)
        into v_ready.readers, v_ready.lanes
        from (select distinct k.reader_id, k.lane_id
                from laneway.parked k
               where k.group_id = p_group_id
                 and k.available_at <= v_now
                 and (p_partition is null or k.partition = p_partition)
                 and k.priority = v_ready.level
               limit 32) d;
    end if;
    exit when v_ready.level is null;

    -- Part 2: lock the lanes and read their positions. After it v_readers and the arrays parallel to it have the lanes
    -- that can be claimed from the log. Expired leases have ended, and parked messages are claimed at once, because
    -- they come before the log's.
    v_readers := '{}';
    v_lanes := '{}';
    v_places := '{}';
    v_segments := '{}';
    v_froms := '{}';
    v_uptos := '{}';
    v_exceptions_until := '{}';
    v_moved_at := '{}';
    v_oldest := null;
    for i in 1..coalesce(cardinality(v_ready.readers), 0) loop
      exit when v_served >= cardinality(v_waiting);
      continue when v_ready.readers[i] = any (v_looked);
      v_looked := v_looked || v_ready.readers[i];
      if not laneway.try_lock_reader(v_ready.readers[i]) then
        v_locked_elsewhere := coalesce(v_locked_elsewhere, v_ready.readers[i]);
        continue;
      end if;
      v_owns_lock := true;
      select p.place, p.segment, p.seq, p.exceptions_until, p.token, p.not_before, p.moved_at
        into v_position
        from laneway.newest_progress(v_ready.readers[i]) p;
      v_leased := null;
      if v_group.fifo then
        if v_position.token is not null or v_position.exceptions_until > v_position.seq then
          perform laneway.expire_claim(c.token)
             from (select distinct o.token
                     from laneway.claim o
                    where o.reader_id = v_ready.readers[i]
                      and (o.until <= v_now) is true) c;
          if found then
            v_has_parked := true;
            v_now := clock_timestamp();
            select p.place, p.segment, p.seq, p.exceptions_until, p.token, p.not_before, p.moved_at
              into v_position
              from laneway.newest_progress(v_ready.readers[i]) p;
          end if;
          v_leased := (
            select min(lower(c.pending))
              from laneway.claim c
             where c.reader_id = v_ready.readers[i]
               and (not c.aside or c.token = v_position.token));
        end if;
      elsif v_position.token is not null then
        continue when exists (select from laneway.claim c where c.token = v_position.token and c.until > v_now);
        if exists (select from laneway.claim c where c.token = v_position.token) then
          perform laneway.expire_claim(v_position.token);
          -- Where the claim is still there, another transaction is settling it.
          continue when exists (select from laneway.claim c where c.token = v_position.token);
          -- What had been parked is parked again, and due now.
          v_has_parked := true;
          v_now := clock_timestamp();
          select p.place, p.segment, p.seq, p.exceptions_until, p.token, p.not_before, p.moved_at
            into v_position
            from laneway.newest_progress(v_ready.readers[i]) p;
        end if;
      end if;
      continue when v_position.not_before > v_now;
      if v_has_parked and v_leased is null then
        v_seq := (
          select k.seq
            from laneway.parked k
           where k.reader_id = v_ready.readers[i]
             and k.available_at <= v_now
           order by k.seq
           limit 1
             for update skip locked);
        if v_seq is not null then
          v_served := v_served + 1;
          v_waiter := v_waiting[v_served];
          v_any_claimed := true;
          return query
            select * from laneway.claim_redelivered(
              p_group_id, v_ready.readers[i], v_ready.lanes[i], v_seq, v_waiter - 1, p_leases[v_waiter],
              p_consumers[v_waiter]);
          continue;
        end if;
      end if;
      v_upto := c_no_end;
      if v_position.exceptions_until > v_position.seq then
        select s.from_seq, s.to_seq
          into v_position.seq, v_upto
          from laneway.next_span(v_ready.readers[i], v_position.seq) s;
      end if;
      continue when v_leased <= v_position.seq + 1;
      v_upto := least(v_upto, v_leased - 1);
      v_readers := v_readers || v_ready.readers[i];
      v_lanes := v_lanes || v_ready.lanes[i];
      v_places := v_places || v_position.place;
      v_segments := v_segments || v_position.segment;
      v_froms := v_froms || v_position.seq;
      v_uptos := v_uptos || v_upto;
      v_exceptions_until := v_exceptions_until || v_position.exceptions_until;
      v_moved_at := v_moved_at || v_position.moved_at;
      v_oldest := least(v_oldest, v_position.segment);
    end loop;
    exit when v_served >= cardinality(v_waiting);

    -- Part 3: claim the locked lanes, in the order of claim_lanes, one for each waiter, or several (p_fill).
    for v_lane in
      select u.i, m.segment, m.seq, m.delayed
        from unnest(v_lanes, v_froms, v_uptos, v_segments, v_moved_at)
             with ordinality u (lane_id, from_seq, to_seq, segment, moved_at, i)
        left join lateral (
          select m.segment, m.seq, m.created_at, coalesce(m.deliver_at > v_now, false) as delayed
            from laneway.message m
           where m.segment >= v_oldest
             and m.lane_id = u.lane_id
             and m.segment >= u.segment
             and m.seq > u.from_seq
             and m.seq <= u.to_seq
           order by m.seq
           limit 1) m on true
       order by case when v_group.fifo then greatest(u.moved_at, m.created_at) else m.created_at end, u.i
    loop
      if v_lane.seq is null then
        if v_ready.many then
          perform laneway.mark_reader_idle(v_readers[v_lane.i], v_lanes[v_lane.i]);
        end if;
        continue;
      end if;
      continue when v_lane.delayed or v_served >= cardinality(v_waiting);
      v_waiter := v_waiting[v_served + 1];
      v_claimed := 0;
      for v_span in
        select * from laneway.claim_lane(
          p_group_id, v_readers[v_lane.i], v_lanes[v_lane.i], v_lane.segment, v_lane.seq, v_uptos[v_lane.i],
          v_places[v_lane.i], v_exceptions_until[v_lane.i], v_waiter - 1, p_wants[v_waiter], p_leases[v_waiter],
          p_consumers[v_waiter])
      loop
        v_claimed := cardinality(v_span.bodies);
        return next v_span;
      end loop;
      v_any_claimed := true;
      if p_fill and v_group.fifo and v_claimed < p_wants[v_waiter] then
        p_wants[v_waiter] := p_wants[v_waiter] - v_claimed;
      else
        v_served := v_served + 1;
      end if;
    end loop;
    v_passes := v_passes + 1;
    if not v_ready.many or v_passes >= c_passes then
      v_below := v_ready.level;
      v_passes := 0;
    end if;
  end loop;

  -- Part 4: as in claim_shared, a worker that was stopped meanwhile gets nothing; and where nothing was claimed, wait
  -- for the lock of a lane that may have messages, and begin again.
  if v_any_claimed and laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers) <> p_wants then
    raise exception 'a worker was stopped during its claim'
      using errcode = 'LW503', hint = 'Nothing was claimed; call again.';
  end if;
  if not v_any_claimed and v_locked_elsewhere is not null and not p_any_claimed then
    perform laneway.await_reader(p_group_id, v_locked_elsewhere, v_owns_lock);
    return query
      select * from laneway.claim_past_exceptions(
        p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority, p_fill);
  end if;
end $$;
