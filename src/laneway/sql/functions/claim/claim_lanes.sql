-- Hands out messages of an ordered group: each waiter gets the next messages of one lane that nobody holds, the lane
-- with the oldest message first (beyond 32 lanes: in turn). A lane that waits for a retry or whose next
-- message is delayed is passed over; a lane whose holder's time is up is taken over at once.
-- Here is the straight path: it looks at many lanes in one statement, without locks, locks those that it hands out, reads
-- those that still stand where they stood in another, and writes for all of them in a third. What is not so simple is
-- in claim_past_exceptions.
-- p_partitions: where to look; several are no more than a hint, where not to look in vain.
-- Other arguments, locks and errors are claim_spans'; so is the answer, behind more: whether the lane may have more to hand out.
create or replace function laneway.claim_lanes(
  p_group_id int, p_wants int[], p_leases interval[], p_consumers text[], p_partitions text[], p_priority smallint, p_alone boolean default false)
returns table (more boolean, waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_group record;
  v_open int[];                          -- the waiters who want something and have nothing yet
  v_ready record;
  v_at record;
  v_next record;                         -- the lanes that have something, in the order in which they are handed out
  v_was text;
  v_n int;
  v_picked int[];                        -- of those, the ones locked for the first who have nothing
  v_missed int[];                        -- the waiters for whom one was locked that another had just handed out
  v_count int;
  v_lane int;
  v_place record;
  v_served boolean := false;
  v_many boolean;
  v_level smallint;
  v_last int;                            -- where there are many lanes: the last reader, and
  v_pivot int;                           -- where this claim began to look
  v_after int;
  v_size int;
  v_looked int := 0;
  v_held int;
  v_own boolean := false;
  v_odd boolean := false;
  v_moved boolean := false;
begin
  select g.queue_id, g.lease, g.record_events, g.durable_claims, exists (select from laneway.parked k where k.group_id = p_group_id) as has_parked,
         (select s.segment from laneway.segment s where s.opened_at is not null and s.segment % 2 = 0 order by s.segment desc limit 1) as current_segment,
         array(select n from generate_subscripts(p_wants, 1) n where p_wants[n] > 0) as open, (select sum(w.want) from unnest(p_wants) w (want)) as wanted
    into v_group from laneway.consumer_group g where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  if p_alone and not v_group.durable_claims then
    v_was := pg_catalog.set_config('synchronous_commit', 'off', true); -- as in claim_spans
  end if;
  if (0 <= all (p_wants) and 10000 >= all (p_wants) and v_group.wanted <= 50000) is not true then
    raise exception 'so many messages cannot be' using errcode = 'LW422', hint = 'Ask for 0 to 10000 for each waiter, and for 50000 in one call at the most.';
  end if;
  if interval '0' >= any (p_leases) then
    raise exception 'a lease must be longer than nothing' using errcode = 'LW422';
  end if;
  if laneway.exceeds_interval_limit(p_leases) then
    perform laneway.raise_long_interval(p_leases);
  end if;
  v_open := v_group.open;
  if p_partitions is null then
    select array_agg(r.reader_id) as readers, array_agg(r.lane_id) as lanes, array_agg(r.priority) as priorities into v_ready
      from (select o.reader_id, o.lane_id, o.priority from laneway.reader o
             where o.group_id = p_group_id and o.ready and (p_priority is null or o.priority = p_priority) order by o.priority desc, o.reader_id limit 33) r;
  else
    select array_agg(r.reader_id) as readers, array_agg(r.lane_id) as lanes, array_agg(r.priority) as priorities into v_ready
      from unnest(p_partitions) u (partition)
      cross join lateral (select o.lane_id from laneway.lane o where o.queue_id = v_group.queue_id and o.partition = u.partition offset 0) l
      cross join lateral (select o.reader_id, o.lane_id, o.priority, o.ready from laneway.reader o where o.group_id = p_group_id and o.lane_id = l.lane_id offset 0) r
     where r.ready and (p_priority is null or r.priority = p_priority);
  end if;
  v_many := p_partitions is null and coalesce(cardinality(v_ready.readers) > 32, false);
  if v_many then
    select r.reader_id, r.priority into v_last, v_level from laneway.reader r
     where r.group_id = p_group_id and r.ready and (p_priority is null or r.priority = p_priority) order by r.priority, r.reader_id desc limit 1;
    v_pivot := v_ready.readers[1] + floor(random() * (v_last - v_ready.readers[1] + 1))::int;
    v_after := v_pivot - 1;
    v_size := cardinality(v_open) + 2;
  end if;
  v_odd := v_group.has_parked or (v_many and v_level <> v_ready.priorities[1]);

  while not v_odd and cardinality(v_open) > 0 loop
    if v_many then
      select array_agg(r.reader_id) as readers, array_agg(r.lane_id) as lanes, array_agg(r.priority) as priorities into v_ready
        from (select o.reader_id, o.lane_id, o.priority from laneway.reader o
               where o.group_id = p_group_id and o.ready and o.priority = v_level and o.reader_id > v_after and o.reader_id <= v_last order by o.reader_id limit v_size) r;
      if v_ready.readers is null then
        exit when v_last < v_pivot;
        v_last := v_pivot - 1; -- from the beginning to where we began
        v_after := 0;
        continue;
      end if;
      v_after := v_ready.readers[cardinality(v_ready.readers)];
    end if;
    -- Where the lanes stand that nobody holds and that wait for no retry.
    select array_agg(u.reader_id) as readers, array_agg(u.lane_id) as lanes, array_agg(u.priority) as priorities, array_agg(p.step) as steps, array_agg(p.segment) as segments,
           array_agg(p.seq) as seqs, array_agg(p.exceptions_until > p.seq or c.until is not null) as odd, min(p.segment) as oldest into v_at
      from unnest(v_ready.readers, v_ready.lanes, v_ready.priorities) u (reader_id, lane_id, priority)
      cross join lateral (select p.step, p.segment, p.seq, p.exceptions_until, p.token, p.not_before from laneway.progress p where p.reader_id = u.reader_id order by p.step desc limit 1) p
      left join lateral (select max(c.until) as until from laneway.claim c where c.token = p.token) c on true
     where (p.not_before > v_now) is not true and (c.until > v_now) is not true;
    select array_agg(n.reader_id) as readers, array_agg(n.lane_id) as lanes, array_agg(n.priority) as priorities, array_agg(n.step) as steps, array_agg(n.segment) as segments,
           array_agg(n.seq) as seqs, array_agg(n.odd) as odd, array_agg(gen_random_uuid()) as tokens into v_next
      from (select u.reader_id, u.lane_id, u.priority, u.step, u.odd, m.segment, m.seq
              from unnest(v_at.readers, v_at.lanes, v_at.priorities, v_at.steps, v_at.segments, v_at.seqs, v_at.odd) with ordinality u (reader_id, lane_id, priority, step, segment, seq, odd, i)
              left join lateral (select m.segment, m.seq, m.created_at, (m.deliver_at > v_now) is true as delayed from laneway.message m
                                  where m.segment >= v_at.oldest and m.segment <= v_group.current_segment + 1 and m.segment >= u.segment and m.lane_id = u.lane_id and m.seq > u.seq order by m.seq limit 1) m on true
             where u.odd or (m.delayed is not true and (v_many or m.seq is not null))
             order by u.priority desc, case when not v_many then m.created_at end, u.i) n;
    v_n := 1;
    while not v_odd and cardinality(v_open) > 0 and v_n <= cardinality(v_next.readers) loop
      v_picked := '{}';
      while cardinality(v_picked) < cardinality(v_open) and v_n <= cardinality(v_next.readers) loop
        v_odd := v_next.odd[v_n];
        exit when v_odd;
        if not pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_next.readers[v_n]) then
          v_held := coalesce(v_held, v_next.readers[v_n]);
        elsif v_next.seqs[v_n] is null then
          v_own := true;
          perform laneway.mark_reader_idle(v_next.readers[v_n], v_next.lanes[v_n]);
        else
          v_own := true;
          v_picked := v_picked || v_n;
        end if;
        v_n := v_n + 1;
      end loop;
      continue when cardinality(v_picked) = 0;
      return query
        with picked as materialized (
          select v_open[u.i] as waiter, v_next.tokens[u.n] as token, v_next.readers[u.n] as reader_id, v_next.lanes[u.n] as lane_id, v_next.segments[u.n] as segment,
                 v_next.seqs[u.n] as first_seq, v_next.priorities[u.n] as priority, l.partition, p.place, p.exceptions_until, m.*
            from unnest(v_picked) with ordinality u (n, i)
            cross join lateral (select o.partition from laneway.lane o where o.lane_id = v_next.lanes[u.n] offset 0) l
            cross join lateral (select p.ctid as place, p.step, p.exceptions_until from laneway.progress p where p.reader_id = v_next.readers[u.n] order by p.step desc limit 1) p
            cross join lateral (
              select max(m.seq) as last_seq, bool_or(m.deliver_at > v_now or m.lease is not null) is true as special, array_agg(m.created_at) as created_at,
                     case when count(m.max_attempts) > 0 then array_agg(m.max_attempts) end as max_attempts, case when count(m.key) > 0 then array_agg(m.key) end as keys,
                     case when count(m.headers) > 0 then array_agg(m.headers) end as headers, array_agg(m.body) as bodies
                from (select m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.created_at, m.body from laneway.message m
                       where m.segment >= v_at.oldest and m.segment <= v_group.current_segment + 1 and m.segment = v_next.segments[u.n] and m.lane_id = v_next.lanes[u.n]
                         and m.seq >= v_next.seqs[u.n] and m.seq < v_next.seqs[u.n] + p_wants[v_open[u.i]] order by m.seq) m) m
           where p.step = v_next.steps[u.n] and not m.special),
        moved as (
          insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
          select c.reader_id, c.segment, c.last_seq, c.exceptions_until, c.token, v_now from picked c),
        left_behind as (
          delete from laneway.progress where ctid = any (array(select c.place from picked c))),
        recorded as (
          insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer)
          select v_group.current_segment, v_now, 'claimed', v_group.queue_id, p_group_id, c.lane_id, c.segment, c.first_seq, c.last_seq, 1, c.token, p_consumers[c.waiter]
            from picked c where v_group.record_events),
        held as (
          insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer, queue_id)
          select c.token, c.reader_id, p_group_id, c.lane_id, c.segment, c.first_seq, c.last_seq, int8multirange(int8range(c.first_seq, c.last_seq, '[]')), 1, false,
                 v_now, v_now + coalesce(p_leases[c.waiter], v_group.lease), p_consumers[c.waiter], case when v_group.record_events then v_group.queue_id end from picked c)
        select cardinality(c.bodies) = p_wants[c.waiter] or c.segment / 2 < v_group.current_segment / 2, c.waiter - 1, c.token, c.segment, c.lane_id, c.first_seq, c.partition, c.priority,
               1::smallint, v_now + coalesce(p_leases[c.waiter], v_group.lease), null::int[], null::smallint[], c.created_at, null::interval[], c.max_attempts, c.keys, c.headers, c.bodies, null::text[]
          from picked c;
      get diagnostics v_count = row_count;
      v_served := v_served or v_count > 0;
      v_missed := '{}';
      if v_count < cardinality(v_picked) then
        -- Some have messages with a delay or a lease of their own, or another has just handed them out.
        for i in 1..cardinality(v_picked) loop
          v_lane := v_picked[i];
          select p.ctid as place, p.step, p.token, p.exceptions_until into v_place from laneway.progress p where p.reader_id = v_next.readers[v_lane] order by p.step desc limit 1;
          if v_place.step = v_next.steps[v_lane] then
            v_served := true;
            return query select true, c.* from laneway.claim_lane(p_group_id, v_next.readers[v_lane], v_next.lanes[v_lane], v_next.segments[v_lane], v_next.seqs[v_lane], 9223372036854775807,
              v_place.place, v_place.exceptions_until, v_open[i] - 1, p_wants[v_open[i]], p_leases[v_open[i]], p_consumers[v_open[i]]) c;
          elsif v_place.token is distinct from v_next.tokens[v_lane] then
            v_missed := v_missed || v_open[i];
          end if;
        end loop;
      end if;
      v_moved := v_moved or cardinality(v_missed) > 0;
      v_open := v_missed || v_open[cardinality(v_picked) + 1:];
    end loop;
    v_looked := v_looked + cardinality(v_ready.readers);
    exit when not v_many or v_looked >= 1000;
    v_size := least(2 * v_size, 256);
  end loop;
  if v_odd then
    return query
      select true, c.* from laneway.claim_past_exceptions(p_group_id, array(select case when n = any (v_open) then p_wants[n] else 0 end from generate_subscripts(p_wants, 1) n),
        p_leases, p_consumers, case when cardinality(p_partitions) = 1 then p_partitions[1] end, p_priority, v_own, v_served) c;
  elsif not v_served and (v_held is not null or v_moved) then
    perform laneway.await_reader(p_group_id, v_held, v_own);
    return query select * from laneway.claim_lanes(p_group_id, p_wants, p_leases, p_consumers, p_partitions, p_priority, p_alone);
  end if;
end $$;
