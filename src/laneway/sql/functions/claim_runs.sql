-- Hands out messages of a group to many waiting consumers at once: up to p_wants[i] to waiter i, in order of
-- priority, then age. p_leases and p_consumers may be null; an element of p_leases that is null means the
-- message's own lease, else the queue's. p_alone: this call is the whole transaction, which then commits
-- asynchronously (a crash only hands the messages out again). p_shared: waiters with the same lease and consumer may hold what
-- they get by one claim, which is cheaper; then whoever settles or extends must name the messages meant.
-- Answers a row for each claim, that is for a run of one lane: its messages are first_seq, first_seq + 1, … in the
-- arrays' order. They are for waiter (0-based) and, if they are more than it wanted, for those after it. positions, where
-- not null, ranks each message among all that were handed out in the call, and the waiters get them in that order; else several
-- runs for one waiter are to be merged by age. An array that would hold only nulls may be null; attempts, where not null, goes before attempt; errors, where not null, tells why each failed the last time.
-- Here is the straight path, a single lane with nothing exceptional ahead; claim_oldest and claim_merged have the same for
-- several lanes, and the rest is in claim_shared and claim_ordered.
-- Locks: the readers' advisory locks, through commit. Errors: LW404 unknown group, LW422 a want or lease that cannot be,
-- LW503 others are reading all that may have something.
create or replace function laneway.claim_runs(
  p_group_id int, p_wants int[], p_leases interval[] default null, p_consumers text[] default null,
  p_partition text default null, p_priority smallint default null, p_alone boolean default false, p_shared boolean default false)
returns table (waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_group record;
  v_at record;
  v_run record;
  v_seats record;
  v_wanted int := 0;
  v_want int;
  v_now timestamptz;
  v_token uuid;
  v_firsts bigint[];                     -- what each of several such waiters gets
  v_lasts bigint[];
  v_straight boolean;
  v_alike boolean;                       -- the waiters can hold what they get by one claim
  v_rivals int;
  v_base text;
begin
  if p_alone then
    perform pg_catalog.set_config('synchronous_commit', 'off', true);
  end if;
  -- The group, its first ready readers, and whether anything parked may come before them.
  select g.queue_id, g.ordered, q.lease, q.record_events, r.readers, r.lanes, r.priorities, r.readers[1] as reader_id, r.lanes[1] as lane_id, r.priorities[1] as priority,
         (select k.priority from laneway.parked k where k.group_id = p_group_id order by k.priority desc limit 1) as parked
    into v_group
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id
    cross join lateral (
      select array_agg(o.reader_id) as readers, array_agg(o.lane_id) as lanes, array_agg(o.priority) as priorities
        from (select o.reader_id, o.lane_id, o.priority from laneway.reader o where o.group_id = p_group_id and o.ready order by o.priority desc, o.reader_id limit 33) o) r
   where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  foreach v_want in array coalesce(p_wants, '{}') loop
    if v_want is null or v_want not between 0 and 10000 then
      raise exception '% messages for one waiter cannot be', coalesce(v_want::text, 'null') using errcode = 'LW422', hint = 'Ask for 0 to 10000.';
    end if;
    v_wanted := v_wanted + v_want;
    if v_wanted > 50000 then
      raise exception 'more than 50000 messages in one call cannot be' using errcode = 'LW422', hint = 'Ask for fewer, in several calls.';
    end if;
  end loop;
  if p_leases is not null and exists (select from unnest(p_leases) l (lease) where l.lease <= interval '0') then
    raise exception 'a lease must be longer than nothing' using errcode = 'LW422';
  end if;
  if v_wanted < 1 then
    return;
  end if;
  if v_group.ordered then
    return query select * from laneway.claim_ordered(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
    return;
  end if;
  v_now := clock_timestamp();
  v_alike := cardinality(p_wants) = 1 or (p_shared and v_wanted <= 10000
    and (p_leases is null or p_leases = pg_catalog.array_fill(p_leases[1], array[cardinality(p_wants)]))
    and (p_consumers is null or p_consumers = pg_catalog.array_fill(p_consumers[1], array[cardinality(p_wants)])));
  v_straight := p_partition is null and p_priority is null and v_group.reader_id is not null and (v_group.parked is null or v_group.parked <= v_group.priority);
  if v_straight and v_group.parked = v_group.priority then
    v_straight := not exists (select from laneway.parked k where k.group_id = p_group_id and k.priority = v_group.priority and k.available_at <= v_now);
  end if;
  if v_straight and v_group.priorities[2] = v_group.priority then
    v_rivals := case when v_group.priorities[cardinality(v_group.readers)] = v_group.priority then cardinality(v_group.readers) else 2 end;
    while v_group.priorities[v_rivals + 1] = v_group.priority loop
      v_rivals := v_rivals + 1;
    end loop;
    if v_rivals <= 32 then
      if cardinality(p_wants) = 1 or (v_alike and p_wants = pg_catalog.array_fill(1, array[v_wanted])) then
        return query
          select * from laneway.claim_oldest(p_group_id, v_group.queue_id, coalesce(p_leases[1], v_group.lease), p_consumers[1], v_group.record_events,
            v_group.readers[:v_rivals], v_group.lanes[:v_rivals], v_group.priority, v_wanted, v_group.parked is null and v_rivals = cardinality(v_group.readers), cardinality(p_wants) > 1);
      else
        return query
          select * from laneway.claim_merged(p_group_id, v_group.queue_id, p_wants, p_leases, p_consumers, v_group.lease, v_group.record_events,
            v_group.readers[:v_rivals], v_group.lanes[:v_rivals], v_group.priority, v_wanted, v_group.parked is null and v_rivals = cardinality(v_group.readers));
      end if;
      if found then
        return;
      end if;
    end if;
    v_straight := false;
  end if;
  if v_straight and pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_group.reader_id) then
    select p.ctid as place, p.segment, p.seq, p.exceptions_until, l.partition into v_at
      from laneway.lane l
      cross join lateral (select p.ctid, p.segment, p.seq, p.exceptions_until from laneway.progress p where p.reader_id = v_group.reader_id order by p.step desc limit 1) p
     where l.lane_id = v_group.lane_id;
    -- Apart, because a segment that is known beforehand is the only one that is opened.
    select count(*)::int as n, max(m.seq) as last, bool_or(m.deliver_at > v_now or m.lease is not null) as special,
           bool_and(m.max_attempts is null and m.key is null and m.headers is null) as plain, array_agg(m.created_at) as created_at, array_agg(m.body) as bodies into v_run
      from (select m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.created_at, m.body from laneway.message m
             where m.segment = v_at.segment and m.lane_id = v_group.lane_id and m.seq > v_at.seq order by m.seq limit v_wanted) m;
    v_straight := v_at.exceptions_until <= v_at.seq and v_run.special is not true and (v_run.n = 0 or v_run.last = v_at.seq + v_run.n);
    if v_straight and v_run.n < v_wanted then
      -- Is that really all?
      v_straight := cardinality(v_group.readers) = 1 and v_group.parked is null;
      if v_straight then
        v_straight := not exists (select from laneway.segment s where s.segment > v_at.segment and s.segment % 2 = v_at.segment % 2 and s.opened_at is not null);
      end if;
      if v_straight and v_run.n = 0 then
        return;
      end if;
    end if;
    if v_straight and v_alike then
      v_token := gen_random_uuid();
      if cardinality(p_wants) > 1 then
        select array_agg(v_at.seq + w.upto - w.want + 1), array_agg(least(v_at.seq + w.upto, v_run.last)) into v_firsts, v_lasts
          from (select u.want, sum(u.want) over (order by u.i) as upto from unnest(p_wants) with ordinality u (want, i)) w
         where w.want > 0 and w.upto - w.want < v_run.n;
      end if;
      with moved as (
        insert into laneway.progress (reader_id, segment, seq, moved_at) values (v_group.reader_id, v_at.segment, v_run.last, v_now)),
      left_behind as (
        delete from laneway.progress where ctid = v_at.place),
      recorded as (
        insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer, part_first, part_last)
        select v_at.segment - v_at.segment % 2, v_now, 'claimed', v_group.queue_id, p_group_id, v_group.lane_id, v_at.segment, v_at.seq + 1, v_run.last, 1, v_token, p_consumers[1],
               v_firsts, v_lasts
         where v_group.record_events)
      insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer)
      values (v_token, v_group.reader_id, p_group_id, v_group.lane_id, v_at.segment, v_at.seq + 1, v_run.last, int8multirange(int8range(v_at.seq, v_run.last, '(]')),
              1, false, v_now, v_now + coalesce(p_leases[1], v_group.lease), p_consumers[1]);
      if v_run.plain then
        return query
          select 0, v_token, v_at.segment, v_group.lane_id, v_at.seq + 1, v_at.partition, v_group.priority, 1::smallint, v_now + coalesce(p_leases[1], v_group.lease),
                 null::int[], null::smallint[], v_run.created_at, null::interval[], null::smallint[], null::text[], null::json[], v_run.bodies, null::text[];
      else
        return query
          select 0, v_token, v_at.segment, v_group.lane_id, v_at.seq + 1, v_at.partition, v_group.priority, 1::smallint, v_now + coalesce(p_leases[1], v_group.lease),
                 null::int[], null::smallint[], array_agg(m.created_at), null::interval[], array_agg(m.max_attempts), array_agg(m.key), array_agg(m.headers), array_agg(m.body), null::text[]
            from (select m.created_at, m.max_attempts, m.key, m.headers, m.body from laneway.message m
                   where m.segment = v_at.segment and m.lane_id = v_group.lane_id and m.seq > v_at.seq and m.seq <= v_run.last order by m.seq) m;
      end if;
      return;
    elsif v_straight then
      -- One random number for all of them, since drawing one is dear; a hash, so that no token tells of another.
      v_base := gen_random_uuid()::text;
      select array_agg(w.i) as waiters, array_agg(left(encode(sha256((v_base || w.i)::bytea), 'hex'), 32)::uuid) as tokens, array_agg(v_at.seq + w.upto - w.want + 1) as firsts,
             array_agg(least(v_at.seq + w.upto, v_run.last)) as lasts, array_agg(v_now + coalesce(p_leases[w.i], v_group.lease)) as untils,
             array_agg(p_consumers[w.i]) as consumers into v_seats
        from (select u.i::int, u.want, sum(u.want) over (order by u.i) as upto from unnest(p_wants) with ordinality u (want, i)) w
       where w.want > 0 and w.upto - w.want < v_run.n;
      with moved as (
        insert into laneway.progress (reader_id, segment, seq, moved_at) values (v_group.reader_id, v_at.segment, v_run.last, v_now)),
      left_behind as (
        delete from laneway.progress where ctid = v_at.place),
      recorded as (
        insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, part_first, part_last, part_token, part_consumer)
        select v_at.segment - v_at.segment % 2, v_now, 'claimed', v_group.queue_id, p_group_id, v_group.lane_id, v_at.segment, v_at.seq + 1, v_run.last, 1,
               v_seats.firsts, v_seats.lasts, v_seats.tokens, v_seats.consumers
         where v_group.record_events)
      insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer)
      select s.token, v_group.reader_id, p_group_id, v_group.lane_id, v_at.segment, s.first_seq, s.last_seq,
             int8multirange(int8range(s.first_seq, s.last_seq, '[]')), 1, false, v_now, s.until, s.consumer
        from unnest(v_seats.tokens, v_seats.firsts, v_seats.lasts, v_seats.untils, v_seats.consumers) s (token, first_seq, last_seq, until, consumer);
      if v_run.n = cardinality(v_seats.tokens) and v_run.plain then
        -- One message each.
        return query
          select s.waiter - 1, s.token, v_at.segment, v_group.lane_id, s.first_seq, v_at.partition, v_group.priority, 1::smallint, s.until,
                 null::int[], null::smallint[], array[s.created_at], null::interval[], null::smallint[], null::text[], null::json[], array[s.body], null::text[]
            from unnest(v_seats.waiters, v_seats.tokens, v_seats.firsts, v_seats.untils, v_run.created_at, v_run.bodies) s (waiter, token, first_seq, until, created_at, body);
      elsif v_run.plain then
        return query
          select s.waiter - 1, s.token, v_at.segment, v_group.lane_id, s.first_seq, v_at.partition, v_group.priority, 1::smallint, s.until,
                 null::int[], null::smallint[], v_run.created_at[s.first_seq - v_at.seq : s.last_seq - v_at.seq], null::interval[], null::smallint[], null::text[], null::json[],
                 v_run.bodies[s.first_seq - v_at.seq : s.last_seq - v_at.seq], null::text[]
            from unnest(v_seats.tokens, v_seats.firsts, v_seats.lasts, v_seats.untils, v_seats.waiters) s (token, first_seq, last_seq, until, waiter);
      else
        return query
          select s.waiter - 1, s.token, v_at.segment, v_group.lane_id, s.first_seq, v_at.partition, v_group.priority, 1::smallint, s.until,
                 null::int[], null::smallint[], m.created_at, null::interval[], m.max_attempts, m.keys, m.headers, m.bodies, null::text[]
            from unnest(v_seats.tokens, v_seats.firsts, v_seats.lasts, v_seats.untils, v_seats.waiters) s (token, first_seq, last_seq, until, waiter)
            cross join lateral (
              select array_agg(m.created_at) as created_at, array_agg(m.max_attempts) as max_attempts, array_agg(m.key) as keys, array_agg(m.headers) as headers, array_agg(m.body) as bodies
                from (select m.created_at, m.max_attempts, m.key, m.headers, m.body from laneway.message m
                       where m.segment = v_at.segment and m.lane_id = v_group.lane_id and m.seq between s.first_seq and s.last_seq order by m.seq) m) m;
      end if;
      return;
    end if;
  end if;
  return query select * from laneway.claim_shared(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
end $$;
