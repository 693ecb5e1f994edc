-- claim_lanes where something exceptional is in the way: messages put back by hand, retries, gaps, a holder whose time is
-- up, more than 32 lanes of several priorities. Goes through the lanes one by one, under their locks.
-- p_own: the caller has readers' locks in hand; p_served: and has handed something out, so that nobody need be waited for.
-- Other arguments, answer, locks and errors are claim_spans'.
create or replace function laneway.claim_past_exceptions(
  p_group_id int, p_wants int[], p_leases interval[], p_consumers text[], p_partition text, p_priority smallint, p_own boolean default false, p_served boolean default false)
returns table (waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_group record;
  v_now timestamptz := clock_timestamp();
  v_waiter int := 0;
  v_below int := 32768;
  v_level int;
  v_ready record;
  v_place record;
  v_lane record;
  v_to bigint;
  v_passes int := 0;
  v_served int := 0;
  v_held int;
  v_own boolean := false;
  v_has_parked boolean;
  v_oldest int;
  v_seen int[] := '{}';
  v_readers int[]; v_lanes int[]; v_from bigint[]; v_upto bigint[]; v_segments int[]; v_ctids tid[]; v_until bigint[];
begin
  p_wants := laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers);
  select g.queue_id, q.lease, q.record_events into v_group
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = p_group_id;
  v_has_parked := exists (select from laneway.parked k where k.group_id = p_group_id);
  while v_waiter < cardinality(p_wants) and p_wants[v_waiter + 1] < 1 loop
    v_waiter := v_waiter + 1;
  end loop;
  loop
    exit when v_waiter >= cardinality(p_wants);
    select * into v_ready from laneway.ready_readers(p_group_id, v_group.queue_id, p_partition, p_priority, v_below, 32);
    if v_has_parked then
      -- Messages put back by hand come from lanes that may be idle.
      v_level := (select max(k.priority) from laneway.parked k
                   where k.group_id = p_group_id and k.available_at <= v_now and (p_partition is null or k.partition = p_partition)
                     and (p_priority is null or k.priority = p_priority) and k.priority < v_below);
      if v_level > v_ready.level then
        v_ready.readers := '{}'; v_ready.lanes := '{}'; v_ready.many := false;
      end if;
      v_ready.level := greatest(v_ready.level, v_level);
      select v_ready.readers || array_agg(d.reader_id order by d.reader_id), v_ready.lanes || array_agg(d.lane_id order by d.reader_id) into v_ready.readers, v_ready.lanes
        from (select distinct k.reader_id, k.lane_id from laneway.parked k
               where k.group_id = p_group_id and k.available_at <= v_now and (p_partition is null or k.partition = p_partition)
                 and k.priority = v_ready.level limit 32) d;
    end if;
    exit when v_ready.level is null;
    v_readers := '{}'; v_lanes := '{}'; v_from := '{}'; v_upto := '{}'; v_segments := '{}'; v_ctids := '{}'; v_until := '{}'; v_oldest := null;
    for i in 1..coalesce(cardinality(v_ready.readers), 0) loop
      continue when v_ready.readers[i] = any (v_seen);
      v_seen := v_seen || v_ready.readers[i];
      if not pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_ready.readers[i]) then
        v_held := coalesce(v_held, v_ready.readers[i]);
        continue;
      end if;
      v_own := true;
      select p.ctid, p.segment, p.seq, p.exceptions_until, p.token, p.not_before into v_place
        from laneway.progress p where p.reader_id = v_ready.readers[i] order by p.step desc limit 1;
      if v_place.token is not null then
        if exists (select from laneway.claim c where c.token = v_place.token and (c.until > v_now) is true) then
          continue;
        end if;
        if exists (select from laneway.claim c where c.token = v_place.token) then
          perform laneway.expire_claim(v_place.token);
          v_now := clock_timestamp(); -- what came back is due now
          v_has_parked := true;
          -- somebody is settling it right now
          continue when exists (select from laneway.claim c where c.token = v_place.token);
          -- what had been put back by hand is put back again
          v_has_parked := true;
          v_now := clock_timestamp();
          select p.ctid, p.segment, p.seq, p.exceptions_until, p.token, p.not_before into v_place
            from laneway.progress p where p.reader_id = v_ready.readers[i] order by p.step desc limit 1;
        end if;
      end if;
      continue when v_place.not_before > v_now;
      if v_has_parked then
        select k.ctid, k.seq, k.segment, k.attempt into v_lane from laneway.parked k
         where k.reader_id = v_ready.readers[i] and k.available_at <= v_now order by k.seq limit 1 for update skip locked;
        if found then
          return query select * from laneway.claim_redelivered(p_group_id, v_ready.readers[i], v_ready.lanes[i], v_lane.seq, v_waiter, p_leases[v_waiter + 1], p_consumers[v_waiter + 1]);
          v_served := v_served + 1;
          v_waiter := v_waiter + 1;
          while v_waiter < cardinality(p_wants) and p_wants[v_waiter + 1] < 1 loop
            v_waiter := v_waiter + 1;
          end loop;
          exit when v_waiter >= cardinality(p_wants);
          continue;
        end if;
      end if;
      v_to := 9223372036854775807;
      if v_place.exceptions_until > v_place.seq then
        select * into v_place.seq, v_to from laneway.next_span(v_ready.readers[i], v_place.seq);
      end if;
      v_readers := v_readers || v_ready.readers[i]; v_lanes := v_lanes || v_ready.lanes[i]; v_ctids := v_ctids || v_place.ctid;
      v_from := v_from || v_place.seq; v_upto := v_upto || v_to; v_segments := v_segments || v_place.segment; v_until := v_until || v_place.exceptions_until;
      v_oldest := least(v_oldest, v_place.segment);
    end loop;
    exit when v_waiter >= cardinality(p_wants);
    for v_lane in
      select u.i, m.segment, m.seq, m.delayed from unnest(v_lanes, v_from, v_upto, v_segments) with ordinality u (lane_id, from_seq, to_seq, segment, i)
        left join lateral (select m.segment, m.seq, m.created_at, coalesce(m.deliver_at > v_now, false) as delayed from laneway.message m
                            where m.segment >= v_oldest and m.lane_id = u.lane_id and m.segment >= u.segment
                              and m.seq > u.from_seq and m.seq <= u.to_seq order by m.seq limit 1) m on true
       order by m.created_at, u.i
    loop
      if v_lane.seq is null then
        if v_ready.many then
          perform laneway.mark_reader_idle(v_readers[v_lane.i], v_lanes[v_lane.i]);
        end if;
        continue;
      end if;
      continue when v_lane.delayed or v_waiter >= cardinality(p_wants);
      return query select * from laneway.claim_lane(p_group_id, v_readers[v_lane.i], v_lanes[v_lane.i], v_lane.segment, v_lane.seq, v_upto[v_lane.i],
        v_ctids[v_lane.i], v_until[v_lane.i], v_waiter, p_wants[v_waiter + 1], p_leases[v_waiter + 1], p_consumers[v_waiter + 1]);
      v_served := v_served + 1;
      v_waiter := v_waiter + 1;
      while v_waiter < cardinality(p_wants) and p_wants[v_waiter + 1] < 1 loop
        v_waiter := v_waiter + 1;
      end loop;
    end loop;
    v_passes := v_passes + 1;
    if not v_ready.many or v_passes >= 20 then
      v_below := v_ready.level;
      v_passes := 0;
    end if;
  end loop;
  -- As in claim_shared.
  if v_served > 0 and laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers) <> p_wants then
    raise exception 'a worker was stopped during its claim' using errcode = 'LW503', hint = 'Nothing was claimed; call again.';
  end if;
  if v_served = 0 and v_held is not null and not p_served then
    perform laneway.await_reader(p_group_id, v_held, v_own or p_own);
    return query select * from laneway.claim_past_exceptions(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
  end if;
end $$;
