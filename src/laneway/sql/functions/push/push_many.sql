-- Appends messages to the log, each to the lane of its queue, partition and priority.
-- An array may be null (the default for all), have one element (the same for all) or one per body.
-- Answers runs in input order: items idx .. idx + run - 1 are at seq, seq + 1, … of that lane; a duplicate
-- (its key was pushed within the queue's window) answers the first message's place and writes nothing.
-- p_ride: where several requests ride in this call, {"largest": messages of the largest}, for the event's detail.
-- p_guards: which of their queues' guards the messages reckon with (see 023_guards.sql); null: they do not care.
-- Here is the straight path, bodies for one lane, in simple statements, which cost less than few with many parts;
-- the rest is in push_mixed.
-- Locks: each lane's advisory lock, in sorted order, through commit, so that commit order is seq order; then
-- the keys, in sorted order. Errors: LW404 unknown queue, LW412 it has other guards, LW413 body too big, LW422 bad arguments.
create or replace function laneway.push_many(
  p_queues int[], p_bodies json[], p_partitions text[] default null, p_priorities smallint[] default null,
  p_delays interval[] default null, p_keys text[] default null, p_headers json[] default null,
  p_leases interval[] default null, p_max_attempts smallint[] default null, p_ride json default null, p_guards smallint[] default null)
returns table (idx int, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_queue record;
  v_partition text := coalesce(p_partitions[1], '');
  v_priority smallint := coalesce(p_priorities[1], 0::smallint);
  v_segment int;
  v_lane_id int;
  v_seq bigint;
  v_count int := cardinality(p_bodies);
begin
  select q.queue_id, q.name, q.kind, q.ordered, q.delay, q.max_bytes, q.record_events into v_queue from laneway.queue q
   where q.queue_id = p_queues[1] and p_delays is null and p_keys is null and p_headers is null and p_leases is null and p_max_attempts is null
     and cardinality(p_queues) = 1 and coalesce(cardinality(p_partitions), 1) = 1 and coalesce(cardinality(p_priorities), 1) = 1 and cardinality(p_bodies) > 0
     and pg_catalog.num_nulls(variadic p_bodies) = 0 and (q.guards <> any (p_guards)) is not true;
  if not found then
    return query select * from laneway.push_mixed(p_queues, p_bodies, p_partitions, p_priorities, p_delays, p_keys, p_headers, p_leases, p_max_attempts, p_ride, p_guards);
    return;
  end if;
  if pg_catalog.pg_column_size(p_bodies) > v_queue.max_bytes then
    perform laneway.check_sizes(v_queue.name, v_queue.max_bytes, p_bodies);
  end if;
  select o.lane_id into v_lane_id
    from laneway.lane o where o.queue_id = v_queue.queue_id and o.partition = v_partition and o.priority = v_priority
     and pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, o.lane_id) order by o.stripe limit 1;
  if v_lane_id is null then
    v_lane_id := laneway.lock_lane(v_queue.queue_id, v_partition, v_priority, v_queue.ordered);
  end if;

  -- Read only now, under the lock: whether the queue is still as it was, the current segment, the lane's newest seq, and who must be woken.
  select s.segment into v_segment from laneway.segment s
   where s.opened_at is not null and s.segment % 2 = case when v_queue.kind = 'unlogged' then 1 else 0 end
     and exists (select from laneway.queue q where q.queue_id = v_queue.queue_id and (q.guards <> any (p_guards)) is not true) order by s.segment desc limit 1;
  if v_segment is null then
    return query select * from laneway.push_mixed(p_queues, p_bodies, p_partitions, p_priorities, p_delays, p_keys, p_headers, p_leases, p_max_attempts, p_ride, p_guards); -- which says what is wrong
    return;
  end if;
  select m.seq into v_seq from laneway.message m where m.segment = v_segment and m.lane_id = v_lane_id order by m.seq desc limit 1;
  if v_seq is null then
    v_seq := laneway.newest_seq(v_lane_id, v_segment);
  end if;
  if exists (select from laneway.reader r where r.lane_id = v_lane_id and not r.ready) then
    update laneway.reader set ready = true where lane_id = v_lane_id and not ready;
  end if;

  if v_queue.record_events then
    -- No body is larger than all together: mostly enough to know that none need be looked at for large ones.
    insert into laneway.event (segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq, detail, largest)
    values (v_segment - v_segment % 2, clock_timestamp(), 'pushed', v_queue.queue_id, v_lane_id, v_segment, v_seq + 1, v_seq + v_count, p_ride, pg_catalog.pg_column_size(p_bodies));
  end if;
  if v_count = 1 then
    insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, body)
    values (v_segment, v_lane_id, v_seq + 1, clock_timestamp(), clock_timestamp() + v_queue.delay, p_bodies[1]);
  else
    insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, body)
    select v_segment, v_lane_id, v_seq + b.n, clock_timestamp(), clock_timestamp() + v_queue.delay, b.body from unnest(p_bodies) with ordinality b (body, n);
  end if;
  idx := 0;
  run := v_count;
  segment := v_segment;
  lane_id := v_lane_id;
  seq := v_seq + 1;
  duplicate := false;
  return next;
end $$;
