-- Hands out messages of an ordered group: each waiter gets the next messages of one lane that nobody holds, the lane
-- with the oldest message first (beyond 32 lanes: in turn). A lane that waits for a retry or whose next
-- message is delayed is passed over; a lane whose holder's time is up is taken over at once.
-- Here is the straight path: it looks at many lanes in one statement, without locks, then locks each lane that it hands
-- out and sees whether it stands where it stood. What is not so simple is in claim_past_exceptions.
-- p_partitions: where to look; several are no more than a hint, where not to look in vain.
-- Other arguments, locks and errors are claim_runs'; so is the answer, behind more: whether the lane may have more to hand out.
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
  v_seats int[];                         -- of the waiters, those who want something
  v_seat int := 1;
  v_ready record;
  v_at record;
  v_lane record;
  v_run record;
  v_many boolean;
  v_level smallint;
  v_last int;                            -- where there are many lanes: the last reader, and
  v_pivot int;                           -- where this claim began to look
  v_after int;
  v_size int;
  v_looked int := 0;
  v_held int;
  v_own boolean := false;
  v_moved boolean := false;
begin
  if p_alone then
    perform pg_catalog.set_config('synchronous_commit', 'off', true);
  end if;
  select g.queue_id, q.lease, q.record_events, exists (select from laneway.parked k where k.group_id = p_group_id) as has_parked,
         (select s.segment from laneway.segment s where s.opened_at is not null and s.segment % 2 = 0 order by s.segment desc limit 1) as current_segment,
         array(select n from generate_subscripts(p_wants, 1) n where p_wants[n] > 0) as seats
    into v_group from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  if exists (select from unnest(p_wants) w (want) where w.want is null or w.want not between 0 and 10000) or (select sum(w.want) from unnest(p_wants) w (want)) > 50000 then
    raise exception 'so many messages cannot be' using errcode = 'LW422', hint = 'Ask for 0 to 10000 for each waiter, and for 50000 in one call at the most.';
  end if;
  if p_leases is not null and exists (select from unnest(p_leases) l (lease) where l.lease <= interval '0') then
    raise exception 'a lease must be longer than nothing' using errcode = 'LW422';
  end if;
  v_seats := v_group.seats;
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
    v_size := cardinality(v_seats) + 2;
  end if;
  if v_group.has_parked or (v_many and v_level <> v_ready.priorities[1]) then
    return query select true, c.* from laneway.claim_past_exceptions(p_group_id, p_wants, p_leases, p_consumers, case when cardinality(p_partitions) = 1 then p_partitions[1] end, p_priority) c;
    return;
  end if;

  while v_seat <= cardinality(v_seats) loop
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
    for v_lane in
      select u.reader_id, u.lane_id, u.priority, u.step, u.odd, m.segment, m.seq, m.delayed
        from unnest(v_at.readers, v_at.lanes, v_at.priorities, v_at.steps, v_at.segments, v_at.seqs, v_at.odd) with ordinality u (reader_id, lane_id, priority, step, segment, seq, odd, i)
        left join lateral (select m.segment, m.seq, m.created_at, (m.deliver_at > v_now) is true as delayed from laneway.message m
                            where m.segment >= v_at.oldest and m.segment <= v_group.current_segment + 1 and m.segment >= u.segment and m.lane_id = u.lane_id and m.seq > u.seq order by m.seq limit 1) m on true
       order by u.priority desc, case when not v_many then m.created_at end, u.i
    loop
      exit when v_seat > cardinality(v_seats);
      if v_lane.odd then
        return query
          select true, c.* from laneway.claim_past_exceptions(p_group_id, array(select case when n < v_seats[v_seat] then 0 else p_wants[n] end from generate_subscripts(p_wants, 1) n),
            p_leases, p_consumers, case when cardinality(p_partitions) = 1 then p_partitions[1] end, p_priority) c;
        return;
      end if;
      continue when v_lane.delayed or (v_lane.seq is null and not v_many);
      if not pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_lane.reader_id) then
        v_held := coalesce(v_held, v_lane.reader_id);
        continue;
      end if;
      v_own := true;
      if v_lane.seq is null then
        perform laneway.rest_reader(v_lane.reader_id, v_lane.lane_id);
        continue;
      end if;
      waiter := v_seats[v_seat] - 1;
      select p.ctid as place, p.step, p.exceptions_until, l.partition, m.* into v_run
        from laneway.lane l
        cross join lateral (select p.ctid, p.step, p.exceptions_until from laneway.progress p where p.reader_id = v_lane.reader_id order by p.step desc limit 1) p
        cross join lateral (
          select max(m.seq) as last, bool_or(m.deliver_at > v_now or m.lease is not null) is true as special, array_agg(m.created_at) as created_at,
                 case when count(m.max_attempts) > 0 then array_agg(m.max_attempts) end as max_attempts, case when count(m.key) > 0 then array_agg(m.key) end as keys,
                 case when count(m.headers) > 0 then array_agg(m.headers) end as headers, array_agg(m.body) as bodies
            from (select m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.created_at, m.body from laneway.message m
                   where m.segment = v_lane.segment and m.lane_id = v_lane.lane_id and m.seq >= v_lane.seq order by m.seq limit p_wants[waiter + 1]) m) m
       where l.lane_id = v_lane.lane_id;
      if v_run.step <> v_lane.step then
        v_moved := true; -- another has just handed it out
        continue;
      end if;
      v_seat := v_seat + 1;
      if v_run.special then
        return query select true, c.* from laneway.claim_lane(p_group_id, v_lane.reader_id, v_lane.lane_id, v_lane.segment, v_lane.seq, 9223372036854775807,
          v_run.place, v_run.exceptions_until, waiter, p_wants[waiter + 1], p_leases[waiter + 1], p_consumers[waiter + 1]) c;
        continue;
      end if;
      token := gen_random_uuid(); segment := v_lane.segment; lane_id := v_lane.lane_id; first_seq := v_lane.seq; partition := v_run.partition; priority := v_lane.priority;
      attempt := 1; until := v_now + coalesce(p_leases[waiter + 1], v_group.lease); created_at := v_run.created_at; max_attempts := v_run.max_attempts;
      keys := v_run.keys; headers := v_run.headers; bodies := v_run.bodies;
      more := cardinality(bodies) = p_wants[waiter + 1] or segment / 2 < v_group.current_segment / 2;
      with moved as (
        insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
        values (v_lane.reader_id, v_lane.segment, v_run.last, v_run.exceptions_until, token, v_now)),
      left_behind as (
        delete from laneway.progress where ctid = v_run.place),
      recorded as (
        insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer)
        select v_group.current_segment, v_now, 'claimed', v_group.queue_id, p_group_id, v_lane.lane_id, v_lane.segment, v_lane.seq, v_run.last, 1, token, p_consumers[waiter + 1]
         where v_group.record_events)
      insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer)
      values (token, v_lane.reader_id, p_group_id, v_lane.lane_id, v_lane.segment, v_lane.seq, v_run.last, int8multirange(int8range(v_lane.seq, v_run.last, '[]')),
              1, false, v_now, until, p_consumers[waiter + 1]);
      return next;
    end loop;
    v_looked := v_looked + cardinality(v_ready.readers);
    exit when not v_many or v_looked >= 1000;
    v_size := least(2 * v_size, 256);
  end loop;
  if v_seat = 1 and (v_held is not null or v_moved) then
    if v_own then
      raise exception 'other claims hold readers of group %', p_group_id using errcode = 'LW503', hint = 'Nothing was claimed; call again.';
    end if;
    perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_held);
    return query select * from laneway.claim_lanes(p_group_id, p_wants, p_leases, p_consumers, p_partitions, p_priority, p_alone);
  end if;
end $$;
