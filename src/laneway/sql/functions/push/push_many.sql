-- Append messages to the log, each to the lane of its queue, partition and priority.
-- An array may be null (the default for all), have one element (the same for all) or one per body.
-- p_event_detail: stored with the event. "largest": the messages of the largest request, where several share this call.
-- "producer": who enqueued, if it is one for all messages; else "producers", a name or null for each.
-- p_windows: how long the keys are remembered; null: for the queue's deduplication window.
-- p_guards: the queue options that the push assumes, as in queue.guards; null: none.
-- Return spans in input order: the messages idx .. idx + messages - 1 are at seq, seq + 1, … of that lane. A duplicate
-- (its dedup key was pushed within the queue's deduplication window) returns the first message's place and is not
-- written.
-- This function is the straight path: bodies for one lane. Its statements are simple, because several simple statements
-- cost less than one with many parts. Everything else is in push_mixed.
-- Locks: each lane's advisory lock, in sorted order, through commit, so that commit order is seq order; then the rows
-- of the dedup keys, in sorted order.
-- Errors: LW404 a queue does not exist, LW412 the queue options are not those assumed, LW413 a body is too large, LW422
-- invalid arguments, LW503 the lane was removed meanwhile.
create or replace function laneway.push_many(
  p_queues int[],
  p_bodies json[],
  p_partitions text[] default null,
  p_priorities smallint[] default null,
  p_delays interval[] default null,
  p_keys text[] default null,
  p_headers json[] default null,
  p_leases interval[] default null,
  p_max_attempts smallint[] default null,
  p_event_detail json default null,
  p_guards smallint[] default null,
  p_windows interval[] default null)
returns table (idx int, messages int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_count int := cardinality(p_bodies);
  v_partition text := coalesce(p_partitions[1], '');
  v_priority smallint := coalesce(p_priorities[1], 0::smallint);
  v_queue record;
  v_lane_id int;
  v_segment int;
  v_head bigint;          -- the lane's newest seq
begin
  -- Find the queue, if the push is for one lane, all defaults, and assumes the right options.
  select q.queue_id, q.name, q.kind, q.ordered, q.delay, q.max_bytes, q.record_events
    into v_queue
    from laneway.queue q
   where q.queue_id = p_queues[1]
     and p_delays is null
     and p_keys is null
     and p_headers is null
     and p_leases is null
     and p_max_attempts is null
     and cardinality(p_queues) = 1
     and coalesce(cardinality(p_partitions), 1) = 1
     and coalesce(cardinality(p_priorities), 1) = 1
     and cardinality(p_bodies) > 0
     and pg_catalog.num_nulls(variadic p_bodies) = 0
     and p_event_detail -> 'producers' is null
     and (q.guards <> any (p_guards)) is not true;
  if not found then
    return query
      select *
        from laneway.push_mixed(
               p_queues, p_bodies, p_partitions, p_priorities, p_delays, p_keys, p_headers, p_leases, p_max_attempts,
               p_event_detail, p_guards, p_windows);
    return;
  end if;
  if pg_catalog.pg_column_size(p_bodies) > v_queue.max_bytes then
    perform laneway.check_sizes(v_queue.name, v_queue.max_bytes, p_bodies);
  end if;

  -- Lock the lane. Afterwards no other transaction can push to it before this one ends.
  select l.lane_id
    into v_lane_id
    from laneway.lane l
   where l.queue_id = v_queue.queue_id
     and l.partition = v_partition
     and l.priority = v_priority
     and pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, l.lane_id)
   order by l.stripe
   limit 1;
  if v_lane_id is null then
    v_lane_id := laneway.lock_lane(v_queue.queue_id, v_partition, v_priority, v_queue.ordered);
  end if;

  -- Read what the lock protects. Afterwards the queue options are those assumed, it is known in which segment the lane
  -- is written and what its newest seq is, and idle readers of the lane are ready.
  select n.segment
    into v_segment
    from laneway.newest_segment(v_queue.kind <> 'unlogged') n
   where exists (
           select
             from laneway.queue q
            where q.queue_id = v_queue.queue_id
              and (q.guards <> any (p_guards)) is not true);
  if v_segment is null then
    -- The queue changed or was deleted: push_mixed raises the error.
    return query
      select *
        from laneway.push_mixed(
               p_queues, p_bodies, p_partitions, p_priorities, p_delays, p_keys, p_headers, p_leases, p_max_attempts,
               p_event_detail, p_guards, p_windows);
    return;
  end if;
  select m.seq
    into v_head
    from laneway.message m
   where m.segment = v_segment
     and m.lane_id = v_lane_id
   order by m.seq desc
   limit 1;
  if v_head is null then
    v_head := laneway.newest_seq(v_lane_id, v_segment);
  end if;
  if exists (select from laneway.reader r where r.lane_id = v_lane_id and not r.ready) then
    update laneway.reader
       set ready = true
     where lane_id = v_lane_id
       and not ready;
  end if;

  -- Write the event and the messages.
  if v_queue.record_events then
    -- largest: no body is larger than all together. That is mostly enough to see that none is large.
    insert into laneway.event (
      segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq, consumer, detail, largest)
    values (
      laneway.event_segment(v_segment), clock_timestamp(), 'pushed', v_queue.queue_id, v_lane_id, v_segment,
      v_head + 1, v_head + v_count, p_event_detail ->> 'producer', p_event_detail, pg_catalog.pg_column_size(p_bodies));
  end if;
  if v_count = 1 then
    insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, body)
    values (
      v_segment, v_lane_id, v_head + 1, clock_timestamp(), clock_timestamp() + v_queue.delay, p_bodies[1]);
  else
    insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, body)
    select v_segment, v_lane_id, v_head + b.n, clock_timestamp(), clock_timestamp() + v_queue.delay, b.body
      from unnest(p_bodies) with ordinality b (body, n);
  end if;
  idx := 0;
  messages := v_count;
  segment := v_segment;
  lane_id := v_lane_id;
  seq := v_head + 1;
  duplicate := false;
  return next;
end $$;
