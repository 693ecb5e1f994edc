-- Hands out messages of a group to many waiting consumers at once: up to p_wants[i] to waiter i, in order of
-- priority, then age. p_leases and p_consumers may be null; an element of p_leases that is null means the
-- message's own lease, else the queue's. p_alone: this call is the whole transaction, which commits asynchronously where
-- the group's claims need not survive a crash (durable_claims). p_shared: waiters with the same lease and consumer may hold what
-- they get by one claim, which is cheaper; then whoever settles or extends must name the messages meant.
-- Answers a row for each run of one lane; all runs of one waiter have one token. A run's messages are first_seq, first_seq + 1, … in the
-- arrays' order. They are for waiter (0-based) and, if they are more than it wanted, for those after it. positions, where
-- not null, ranks each message among all that were handed out in the call, and the waiters get them in that order; else several
-- runs for one waiter are to be merged by age. An array that would hold only nulls may be null; attempts, where not null, goes before attempt; errors, where not null, tells why each failed the last time.
-- Here are the straight paths: what waits in one lane, or the oldest of several lanes for one waiter or for waiters of one message each who can hold it
-- by one claim, all in one segment and nothing exceptional among it. Both in one function, because to call another costs as much as
-- to read a hundred messages. claim_merged has the same for several lanes and other waiters; the rest is in claim_shared and claim_ordered.
-- Locks: the readers' advisory locks, through commit. Errors: LW404 unknown group, LW422 a want or lease that cannot be,
-- LW503 others are reading all that may have something.
create or replace function laneway.claim_spans(
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
  v_wanted int;
  v_now timestamptz;
  v_token uuid;
  v_firsts bigint[];                     -- what each of several such waiters gets
  v_lasts bigint[];
  v_straight boolean;
  v_alike boolean;                       -- the waiters can hold what they get by one claim
  v_single boolean := false;             -- so can they, and each wants one message
  v_rivals int;
  v_base text;                           -- of the tokens
  v_was text;
  -- of several lanes
  v_readers int[];                       -- those that nobody else is reading
  v_lanes int[];
  v_stand record;                        -- arrays: where they stand
  v_share record;                        -- arrays: those that something is wanted of, and how far
  v_chunk int;
begin
  -- The group, its first ready readers, and whether anything parked may come before them.
  select g.queue_id, g.ordered, g.lease, g.record_events, g.durable_claims, r.readers, r.lanes, r.priorities, r.readers[1] as reader_id, r.lanes[1] as lane_id, r.priorities[1] as priority,
         (select k.priority from laneway.parked k where k.group_id = p_group_id order by k.priority desc limit 1) as parked
    into v_group
    from laneway.consumer_group g
    cross join lateral (
      select array_agg(o.reader_id) as readers, array_agg(o.lane_id) as lanes, array_agg(o.priority) as priorities
        from (select o.reader_id, o.lane_id, o.priority from laneway.reader o where o.group_id = p_group_id and o.ready order by o.priority desc, o.reader_id limit 33) o) r
   where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  if p_alone and not v_group.durable_claims then
    v_was := pg_catalog.set_config('synchronous_commit', 'off', true); -- assigned, because perform costs four times as much
  end if;
  if cardinality(p_wants) = 1 and p_wants[1] between 1 and 10000 and p_leases is null then
    v_wanted := p_wants[1];
    v_alike := true;
  else
    if p_wants is not null and (0 <= all (p_wants) and 10000 >= all (p_wants)) is not true then
      raise exception '% messages for one waiter cannot be', (select coalesce(w.want::text, 'null') from unnest(p_wants) w (want) where (w.want between 0 and 10000) is not true limit 1)
        using errcode = 'LW422', hint = 'Ask for 0 to 10000.';
    end if;
    v_wanted := coalesce((select sum(w.want) from unnest(p_wants) w (want)), 0);
    if v_wanted > 50000 then
      raise exception 'more than 50000 messages in one call cannot be' using errcode = 'LW422', hint = 'Ask for fewer, in several calls.';
    end if;
    if interval '0' >= any (p_leases) then
      raise exception 'a lease must be longer than nothing' using errcode = 'LW422';
    end if;
    if laneway.exceeds_interval_limit(p_leases) then
      perform laneway.raise_long_interval(p_leases);
    end if;
    if v_wanted < 1 then
      return;
    end if;
    v_alike := cardinality(p_wants) = 1 or (p_shared and v_wanted <= 10000
      and (p_leases is null or p_leases = pg_catalog.array_fill(p_leases[1], array[cardinality(p_wants)]))
      and (p_consumers is null or p_consumers = pg_catalog.array_fill(p_consumers[1], array[cardinality(p_wants)])));
    v_single := v_alike and v_wanted > 1 and p_wants = pg_catalog.array_fill(1, array[v_wanted]);
  end if;
  if v_group.ordered then
    return query select * from laneway.claim_ordered(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
    return;
  end if;
  v_now := clock_timestamp();
  v_straight := p_partition is null and p_priority is null and v_group.reader_id is not null and (v_group.parked is null or v_group.parked <= v_group.priority);
  if v_straight and v_group.parked = v_group.priority then
    v_straight := not exists (select from laneway.parked k where k.group_id = p_group_id and k.priority = v_group.priority and k.available_at <= v_now);
  end if;
  if v_straight and v_group.priorities[2] = v_group.priority then
    v_rivals := case when v_group.priorities[cardinality(v_group.readers)] = v_group.priority then cardinality(v_group.readers) else 2 end;
    while v_group.priorities[v_rivals + 1] = v_group.priority loop
      v_rivals := v_rivals + 1;
    end loop;
    if v_rivals <= 32 and (cardinality(p_wants) = 1 or v_single) then
      <<several>> -- claims of one token, its parts; left where that is not enough or not so simple
      begin
        -- Lock first, read where they stand only then.
        for i in 1..v_rivals loop
          if pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_group.readers[i]) then
            v_readers := v_readers || v_group.readers[i];
            v_lanes := v_lanes || v_group.lanes[i];
          end if;
        end loop;
        exit several when v_readers is null;
        select array_agg(p.ctid) as places, array_agg(p.seq) as seqs, min(p.segment) as segment, bool_or(p.exceptions_until > p.seq) as exceptions,
               min(p.segment) <> (select s.segment from laneway.segment s where s.opened_at is not null and s.segment % 2 = min(p.segment) % 2 order by s.segment desc limit 1) as older
          into v_stand
          from unnest(v_readers) u (reader_id)
          cross join lateral (select p.ctid, p.segment, p.seq, p.exceptions_until from laneway.progress p where p.reader_id = u.reader_id order by p.step desc limit 1) p;
        exit several when v_stand.exceptions or v_stand.older or cardinality(v_stand.seqs) is distinct from cardinality(v_readers); -- one was removed just now
        -- How far each lane goes: read of each somewhat more than its share and, if all of that is wanted of one, further of all.
        v_chunk := least(v_wanted, v_wanted * 5 / (4 * cardinality(v_readers)) + 2);
        loop
          select array_agg(r.i) as i, array_agg(v_lanes[r.i]) as lanes, array_agg(v_stand.seqs[r.i] + 1) as firsts, array_agg(r.last_seq) as lasts, sum(r.n) as n, max(r.n) as most, bool_or(r.special) as special, bool_and(r.plain) as plain into v_share
            from (select o.i, max(o.seq) as last_seq, count(*) as n, bool_or(o.deliver_at > v_now or o.lease is not null) as special,
                         bool_and(o.max_attempts is null and o.key is null and o.headers is null) as plain
                    from (select u.i, m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers from unnest(v_lanes, v_stand.seqs) with ordinality u (lane_id, from_seq, i)
                           cross join lateral (select m.seq, m.created_at, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers from laneway.message m
                                                where m.segment = v_stand.segment and m.lane_id = u.lane_id and m.seq > u.from_seq and m.seq <= u.from_seq + v_chunk order by m.seq) m
                           order by m.created_at, u.i, m.seq limit v_wanted) o group by o.i) r;
          exit when v_share.most < v_chunk or v_chunk = v_wanted or v_share.n is null;
          v_chunk := least(v_wanted, v_chunk * 3);
        end loop;
        exit several when v_share.n is null or v_share.special
          or (v_share.n < v_wanted and not (v_group.parked is null and cardinality(v_readers) = cardinality(v_group.readers)));
        v_token := gen_random_uuid();
        if v_single then
          select array_agg(u.lane_id), array_agg(s.seq) into v_lanes, v_firsts
            from unnest(v_share.lanes, v_share.firsts, v_share.lasts) u (lane_id, first_seq, last_seq) cross join lateral generate_series(u.first_seq, u.last_seq) s (seq);
        end if;
        return query
          with run as materialized (
            select (u.i - 1)::smallint as part, v_readers[u.i] as reader_id, u.lane_id, v_stand.places[u.i] as place, u.first_seq, u.last_seq, r.*
              from unnest(v_share.i, v_share.lanes, v_share.firsts, v_share.lasts) u (i, lane_id, first_seq, last_seq)
              cross join lateral (
                select array_agg(m.created_at) as created_at, array_agg(m.max_attempts) filter (where not v_share.plain) as max_attempts, array_agg(m.key) filter (where not v_share.plain) as keys,
                       array_agg(m.headers) filter (where not v_share.plain) as headers, array_agg(m.body) as bodies
                  from (select m.created_at, m.max_attempts, m.key, m.headers, m.body from laneway.message m
                         where m.segment = v_stand.segment and m.lane_id = u.lane_id and m.seq >= u.first_seq and m.seq <= u.last_seq order by m.seq) m) r),
          moved as (
            insert into laneway.progress (reader_id, segment, seq, moved_at) select r.reader_id, v_stand.segment, r.last_seq, v_now from run r),
          left_behind as (
            delete from laneway.progress where ctid = any (array(select r.place from run r))),
          claimed as (
            insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer, queue_id)
            select v_token, r.part, r.reader_id, p_group_id, r.lane_id, v_stand.segment, r.first_seq, r.last_seq, int8multirange(int8range(r.first_seq, r.last_seq, '[]')), 1, false,
                   v_now, v_now + coalesce(p_leases[1], v_group.lease), p_consumers[1], case when v_group.record_events then v_group.queue_id end from run r),
          recorded as (
            insert into laneway.event (segment, at, action, queue_id, group_id, message_segment, attempt, token, consumer, part_lane, part_first, part_last)
            select v_stand.segment - v_stand.segment % 2, v_now, 'claimed', v_group.queue_id, p_group_id, v_stand.segment, 1, v_token, p_consumers[1],
                   case when v_single then v_lanes else v_share.lanes end, case when v_single then v_firsts else v_share.firsts end, case when v_single then v_firsts else v_share.lasts end
             where v_group.record_events)
          select 0, v_token, v_stand.segment, r.lane_id, r.first_seq, l.partition, v_group.priority, 1::smallint, v_now + coalesce(p_leases[1], v_group.lease),
                 null::int[], null::smallint[], r.created_at, null::interval[], r.max_attempts, r.keys, r.headers, r.bodies, null::text[]
            from run r cross join lateral (select o.partition from laneway.lane o where o.lane_id = r.lane_id offset 0) l;
        return;
      end;
    elsif v_rivals <= 32 then
      return query
        select * from laneway.claim_merged(p_group_id, v_group.queue_id, p_wants, p_leases, p_consumers, v_group.lease, v_group.record_events,
          v_group.readers[:v_rivals], v_group.lanes[:v_rivals], v_group.priority, v_wanted, v_group.parked is null and v_rivals = cardinality(v_group.readers));
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
    select count(*)::int as n, max(m.seq) as last, count(m.lease) > 0 or max(m.deliver_at) > v_now as special,
           count(m.max_attempts) + count(m.key) + count(m.headers) = 0 as plain, array_agg(m.created_at) as created_at, array_agg(m.body) as bodies into v_run
      from (select m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.created_at, m.body from laneway.message m
             where m.segment = v_at.segment and m.lane_id = v_group.lane_id and m.seq > v_at.seq and m.seq <= v_at.seq + v_wanted order by m.seq) m;
    v_straight := v_at.exceptions_until <= v_at.seq and v_run.special is not true and (v_run.n = 0 or v_run.last = v_at.seq + v_run.n);
    if v_straight and v_run.n < v_wanted then
      -- Is that really all?
      v_straight := cardinality(v_group.readers) = 1 and v_group.parked is null;
      if v_straight then
        v_straight := not exists (select from laneway.segment s where s.segment > v_at.segment and s.segment % 2 = v_at.segment % 2 and s.opened_at is not null);
      end if;
      if v_straight and v_run.n = 0 then
        v_straight := not exists (select from laneway.message m where m.segment = v_at.segment and m.lane_id = v_group.lane_id and m.seq > v_at.seq);
        if v_straight then
          return;
        end if;
      end if;
    end if;
    if v_straight and v_alike then
      v_token := gen_random_uuid();
      if v_single then
        v_firsts := array(select generate_series(v_at.seq + 1, v_run.last));
        v_lasts := v_firsts;
      elsif cardinality(p_wants) > 1 then
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
      insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer, queue_id)
      values (v_token, v_group.reader_id, p_group_id, v_group.lane_id, v_at.segment, v_at.seq + 1, v_run.last, int8multirange(int8range(v_at.seq, v_run.last, '(]')),
              1, false, v_now, v_now + coalesce(p_leases[1], v_group.lease), p_consumers[1], case when v_group.record_events then v_group.queue_id end);
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
      insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer, queue_id)
      select s.token, v_group.reader_id, p_group_id, v_group.lane_id, v_at.segment, s.first_seq, s.last_seq,
             int8multirange(int8range(s.first_seq, s.last_seq, '[]')), 1, false, v_now, s.until, s.consumer, case when v_group.record_events then v_group.queue_id end
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
