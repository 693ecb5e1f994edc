-- Appends messages to the log, each to the lane of its queue, partition and priority.
-- An array may be null (the default for all), have one element (the same for all) or one per body.
-- Answers runs in input order: items idx .. idx + run - 1 are at seq, seq + 1, … of that lane; a duplicate
-- (its key was pushed within the queue's window) answers the first message's place and writes nothing.
-- Locks: each lane's advisory lock, in sorted order, through commit, so that commit order is seq order; then
-- the keys, in sorted order. Errors: LW404 unknown queue, LW413 body too big, LW422 bad arguments.
create or replace function laneway.push_many(
  p_queues int[], p_bodies json[], p_partitions text[] default null, p_priorities smallint[] default null,
  p_delays interval[] default null, p_keys text[] default null, p_headers json[] default null,
  p_leases interval[] default null, p_max_attempts smallint[] default null)
returns table (idx int, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_count int := cardinality(p_bodies);
  v_queue record;
  v_segment int;
  v_head bigint;
  v_asleep boolean;
  v_due timestamptz;
begin
  if v_count is null or v_count = 0 then
    return;
  end if;
  if coalesce(cardinality(p_queues), 0) not in (1, v_count) or coalesce(cardinality(p_partitions), 1) not in (1, v_count)
     or coalesce(cardinality(p_priorities), 1) not in (1, v_count) or coalesce(cardinality(p_delays), 1) not in (1, v_count)
     or coalesce(cardinality(p_keys), 1) not in (1, v_count) or coalesce(cardinality(p_headers), 1) not in (1, v_count)
     or coalesce(cardinality(p_leases), 1) not in (1, v_count) or coalesce(cardinality(p_max_attempts), 1) not in (1, v_count) then
    raise exception 'each array must have one element or as many as there are bodies (%)', v_count using errcode = 'LW422';
  end if;
  if cardinality(p_queues) > 1 or cardinality(p_partitions) > 1 or cardinality(p_priorities) > 1 or p_keys is not null or p_delays is not null then
    return query select * from laneway.push_mixed(p_queues, p_bodies, p_partitions, p_priorities, p_delays, p_keys, p_headers, p_leases, p_max_attempts);
    return;
  end if;

  select q.queue_id, q.kind <> 'unlogged' as logged, q.ordered, q.delay, q.max_bytes, q.record_events, l.lane_id, q.name into v_queue
    from laneway.queue q
    left join laneway.lane l on l.queue_id = q.queue_id and l.partition = coalesce(p_partitions[1], '')
         and l.priority = coalesce(p_priorities[1], 0::smallint) and l.stripe = 0
   where q.queue_id = p_queues[1];
  if not found then
    raise exception 'queue % does not exist', p_queues[1] using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if pg_catalog.pg_column_size(p_bodies) > v_queue.max_bytes then
    perform laneway.check_sizes(v_queue.name, v_queue.max_bytes, p_bodies);
  end if;
  if v_queue.lane_id is null or not pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_queue.lane_id) then
    v_queue.lane_id := laneway.lock_lane(v_queue.queue_id, coalesce(p_partitions[1], ''), coalesce(p_priorities[1], 0::smallint), v_queue.ordered);
  end if;

  -- Read only now, under the lock: the current segment, the lane's newest seq, and who must be woken.
  select s.segment into v_segment from laneway.segment s
   where s.opened_at is not null and s.segment % 2 = case when v_queue.logged then 0 else 1 end order by s.segment desc limit 1;
  select (select m.seq from laneway.message m where m.segment = v_segment and m.lane_id = v_queue.lane_id order by m.seq desc limit 1),
         exists (select from laneway.reader r where r.lane_id = v_queue.lane_id and not r.ready)
    into v_head, v_asleep;
  if v_head is null then
    v_head := laneway.newest_seq(v_queue.lane_id, v_segment);
  end if;
  if v_asleep then
    update laneway.reader set ready = true where lane_id = v_queue.lane_id and not ready;
  end if;
  if v_queue.delay is not null then
    v_due := clock_timestamp() + v_queue.delay;
  end if;
  if p_headers is null and p_leases is null and p_max_attempts is null then
    insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, body)
    select v_segment, v_queue.lane_id, v_head + b.n, clock_timestamp(), v_due, b.body
      from unnest(p_bodies) with ordinality b (body, n);
  else
    insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, lease, max_attempts, headers, body)
    select v_segment, v_queue.lane_id, v_head + b.n, clock_timestamp(), v_due,
           p_leases[case when cardinality(p_leases) = 1 then 1 else b.n end],
           p_max_attempts[case when cardinality(p_max_attempts) = 1 then 1 else b.n end],
           p_headers[case when cardinality(p_headers) = 1 then 1 else b.n end], b.body
      from unnest(p_bodies) with ordinality b (body, n);
  end if;
  if v_queue.record_events then
    insert into laneway.event (segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq)
    values (v_segment - v_segment % 2,
            clock_timestamp(), 'pushed', v_queue.queue_id, v_queue.lane_id, v_segment, v_head + 1, v_head + v_count);
  end if;
  idx := 0; run := v_count; segment := v_segment; lane_id := v_queue.lane_id; seq := v_head + 1; duplicate := false;
  return next;
end $$;
