-- push_many's general path: several queues, partitions or priorities in one call, delays, keys, headers, leases.
-- Same arguments, answer, locks and errors as push_many; answers one row per item.
create or replace function laneway.push_mixed(
  p_queues int[], p_bodies json[], p_partitions text[], p_priorities smallint[], p_delays interval[], p_keys text[],
  p_headers json[], p_leases interval[], p_max_attempts smallint[], p_ride json default null, p_guards smallint[] default null)
returns table (idx int, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_count int := coalesce(cardinality(p_bodies), 0);
  v_queues int[] := case when cardinality(p_queues) = 1 then array_fill(p_queues[1], array[v_count]) else p_queues end;
  v_partitions text[] := case when cardinality(p_partitions) = v_count then p_partitions when p_partitions is not null then array_fill(p_partitions[1], array[v_count]) end;
  v_priorities smallint[] := case when cardinality(p_priorities) = v_count then p_priorities when p_priorities is not null then array_fill(p_priorities[1], array[v_count]) end;
  v_delays interval[] := case when cardinality(p_delays) = v_count then p_delays when p_delays is not null then array_fill(p_delays[1], array[v_count]) end;
  v_keys text[] := case when cardinality(p_keys) = v_count then p_keys when p_keys is not null then array_fill(p_keys[1], array[v_count]) end;
  v_headers json[] := case when cardinality(p_headers) = v_count then p_headers when p_headers is not null then array_fill(p_headers[1], array[v_count]) end;
  v_leases interval[] := case when cardinality(p_leases) = v_count then p_leases when p_leases is not null then array_fill(p_leases[1], array[v_count]) end;
  v_max_attempts smallint[] := case when cardinality(p_max_attempts) = v_count then p_max_attempts when p_max_attempts is not null then array_fill(p_max_attempts[1], array[v_count]) end;
  v_guards smallint[] := case when cardinality(p_guards) = v_count then p_guards when p_guards is not null then array_fill(p_guards[1], array[v_count]) end;
  v_item record;         -- arrays, per item: which of the lanes below, and which of that lane's new messages
  v_lane record;         -- arrays, per lane
  v_queue record;        -- arrays, per lane too, or of one element where all lanes are of one queue
  v_width int := cardinality(p_queues);
  v_priority smallint := coalesce(p_priorities[1], 0::smallint);
  v_found int;           -- lanes found in one go
  v_changed boolean;     -- a queue has other guards than the messages reckon with; null: is gone
  v_segment int; v_unlogged int;
  v_segments int[]; v_heads bigint[];
  v_taken int := 0;
  v_take boolean[];      -- per item: written, not a duplicate; null: all are
  v_first_segments int[]; v_first_lanes int[]; v_first_seqs bigint[]; -- per item: where the message is that it repeats
  v_now timestamptz;
begin
  if coalesce(v_count, 0) = 0 then
    return;
  end if;
  if coalesce(cardinality(p_queues), 0) not in (1, v_count) or coalesce(cardinality(p_partitions), 1) not in (1, v_count)
     or coalesce(cardinality(p_priorities), 1) not in (1, v_count) or coalesce(cardinality(p_delays), 1) not in (1, v_count)
     or coalesce(cardinality(p_keys), 1) not in (1, v_count) or coalesce(cardinality(p_headers), 1) not in (1, v_count)
     or coalesce(cardinality(p_leases), 1) not in (1, v_count) or coalesce(cardinality(p_max_attempts), 1) not in (1, v_count)
     or coalesce(cardinality(p_guards), 1) not in (1, v_count) then
    raise exception 'each array must have one element or as many as there are bodies (%)', v_count using errcode = 'LW422';
  end if;
  if pg_catalog.num_nulls(variadic p_bodies) > 0 then
    raise exception 'every message must have a body' using errcode = 'LW422', hint = 'JSON''s null is written ''null''.';
  end if;
  if interval '0' >= any (p_leases) or 1 > any (p_max_attempts) then
    raise exception 'a lease must be longer than nothing, and attempts at least one' using errcode = 'LW422';
  end if;
  if laneway.exceeds_interval_limit(p_leases) or laneway.exceeds_interval_limit(p_delays) then
    perform laneway.raise_long_interval(p_leases || p_delays);
  end if;
  if v_width = 1 and coalesce(cardinality(p_priorities), 1) = 1 then
    -- One queue and priority: lanes differ by their partitions alone, and those that are there are found in one go.
    if coalesce(cardinality(p_partitions), 1) = 1 then
      select array_fill(1, array[v_count]) as groups, array(select pg_catalog.generate_series(1, v_count)) as places, 1 as lanes into v_item;
    else
      select array_agg(u.lane_group) as groups, array_agg(u.place) as places, max(u.lane_group) as lanes into v_item from (
        select (dense_rank() over (order by i.part collate "C"))::int as lane_group, (row_number() over (partition by i.part collate "C" order by i.n))::int as place
          from (select i.n, coalesce(i.part, '') as part from unnest(p_partitions) with ordinality i (part, n)) i
         order by i.n) u;
    end if;
    select array_agg(o.queue_id) as queues, array_agg(o.partition) as parts, array_agg(o.priority) as priorities, null::int[] as messages, array_agg(o.lane_id) as ids into v_lane
      from (select o.queue_id, o.partition, o.priority, o.lane_id from laneway.lane o
             where o.queue_id = p_queues[1] and o.partition = any (coalesce(array_replace(p_partitions, null, ''), array[''])) and o.priority = v_priority and o.stripe = 0
             order by o.partition collate "C") o;
    v_found := cardinality(v_lane.ids);
    if v_item.lanes in (1, v_count) then
      v_lane.messages := array_fill(v_count / v_item.lanes, array[v_item.lanes]);
    else
      v_lane.messages := array(select count(*)::int from unnest(v_item.groups) i (lane_group) group by i.lane_group order by i.lane_group);
    end if;
  else
    select array_agg(u.lane_group) as groups, array_agg(u.place) as places, max(u.lane_group) as lanes into v_item from (
      select (dense_rank() over (order by i.queue_id, i.part collate "C", i.priority))::int as lane_group,
             (row_number() over (partition by i.queue_id, i.part collate "C", i.priority order by i.n))::int as place
        from (select i.n, i.queue_id, coalesce(i.part, '') as part, coalesce(i.priority, 0::smallint) as priority
                from unnest(v_queues, v_partitions, v_priorities) with ordinality i (queue_id, part, priority, n)) i
       order by i.n) u;
  end if;
  if v_found is distinct from v_item.lanes then
    select array_agg(g.queue_id) as queues, array_agg(g.part) as parts, array_agg(g.priority) as priorities, array_agg(g.messages) as messages, array_agg(l.lane_id) as ids,
           array_agg(g.least_guards) as least_guards, array_agg(g.most_guards) as most_guards into v_lane
      from (select min(i.queue_id) as queue_id, min(coalesce(i.part, '')) as part, min(coalesce(i.priority, 0::smallint)) as priority, count(*)::int as messages,
                   min(i.guards) as least_guards, max(i.guards) as most_guards
              from unnest(v_queues, v_partitions, v_priorities, v_item.groups, v_guards) i (queue_id, part, priority, lane_group, guards) group by i.lane_group order by i.lane_group) g
      left join lateral (select o.lane_id from laneway.lane o where o.queue_id = g.queue_id and o.partition = g.part and o.priority = g.priority and o.stripe = 0 offset 0) l on true;
  end if;
  -- The queues' settings, per lane; of one queue, the one element that stands for all.
  if v_width = 1 then
    select array[q.queue_id] as found, array[q.ordered] as ordered, array[q.kind <> 'unlogged'] as logged, array[q.delay] as delays, array[q.dedup_scope = 'partition'] as scoped,
           array[q.dedup_window] as windows, array[q.record_events] as recorded, q.max_bytes as least_bytes, q.kind = 'unlogged' as any_unlogged, q.ordered as all_ordered
      into v_queue from laneway.queue q where q.queue_id = p_queues[1];
  else
    select array_agg(q.queue_id) as found, array_agg(q.ordered) as ordered, array_agg(q.kind <> 'unlogged') as logged, array_agg(q.delay) as delays, array_agg(q.dedup_scope = 'partition') as scoped,
           array_agg(q.dedup_window) as windows, array_agg(q.record_events) as recorded, min(q.max_bytes) as least_bytes, bool_or(q.kind = 'unlogged') as any_unlogged, bool_and(q.ordered) as all_ordered
      into v_queue from unnest(v_lane.queues) u (queue_id)
      left join lateral (select o.* from laneway.queue o where o.queue_id = u.queue_id offset 0) q on true;
  end if;
  if v_queue.found is null or array_position(v_queue.found, null) is not null then
    raise exception 'queue % does not exist', v_lane.queues[coalesce(array_position(v_queue.found, null), 1)] using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  -- What was taken into the outbox was small enough when it was.
  if pg_catalog.pg_column_size(p_bodies) > v_queue.least_bytes and pg_catalog.current_setting('laneway.draining', true) is distinct from 'on' then
    perform laneway.check_sizes(q.name, q.max_bytes, array(select case when i.queue_id = q.queue_id then i.body else '0' end
              from unnest(v_queues, p_bodies) with ordinality i (queue_id, body, n) order by i.n))
       from laneway.queue q where q.queue_id = any (v_lane.queues);
  end if;
  if v_queue.all_ordered and array_position(v_lane.ids, null) is null then
    perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, u.lane_id) from unnest(v_lane.ids) u (lane_id);
  else
    for i in 1..cardinality(v_lane.ids) loop
      if v_queue.ordered[least(i, v_width)] and v_lane.ids[i] is not null then
        perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane.ids[i]);
      elsif v_lane.ids[i] is null or not pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane.ids[i]) then
        v_lane.ids[i] := laneway.lock_lane(v_lane.queues[i], v_lane.parts[i], v_lane.priorities[i], v_queue.ordered[least(i, v_width)]);
      end if;
    end loop;
  end if;

  -- Read only now, under the locks: whether the queues are still as they were, the current segments, the lanes' newest seqs, and who must be woken.
  if v_width = 1 then
    v_changed := (select coalesce(q.guards <> any (p_guards), false) from laneway.queue q where q.queue_id = p_queues[1]);
  else
    v_changed := (select case when bool_and(q.guards is not null) then coalesce(bool_or(q.guards <> u.least_guards or q.guards <> u.most_guards), false) end
                    from unnest(v_lane.queues, v_lane.least_guards, v_lane.most_guards) u (queue_id, least_guards, most_guards)
                    left join lateral (select o.guards from laneway.queue o where o.queue_id = u.queue_id offset 0) q on true);
  end if;
  if v_changed is null then
    raise exception 'a queue does not exist any more' using errcode = 'LW404', hint = 'It was deleted just now; create it again.';
  elsif v_changed then
    raise exception 'a queue has other guards than the messages reckon with' using errcode = 'LW412', hint = 'Read its options again, and push by them.';
  end if;
  select s.segment into v_segment from laneway.segment s where s.opened_at is not null and s.segment % 2 = 0 order by s.segment desc limit 1;
  if v_queue.any_unlogged then
    v_unlogged := laneway.current_segment(false);
    select array_agg(u.segment), array_agg(coalesce((select m.seq from laneway.message m where m.segment in (v_segment, v_unlogged) and m.segment = u.segment and m.lane_id = u.lane_id
                                                      order by m.seq desc limit 1), laneway.newest_seq(u.lane_id, u.segment))) into v_segments, v_heads
      from (select u.lane_id, case when v_queue.logged[least(u.i, v_width)] then v_segment else v_unlogged end as segment from unnest(v_lane.ids) with ordinality u (lane_id, i)) u;
  else
    select array_agg(v_segment), array_agg(coalesce((select m.seq from laneway.message m where m.segment = v_segment and m.lane_id = u.lane_id
                                                      order by m.seq desc limit 1), laneway.newest_seq(u.lane_id, v_segment))) into v_segments, v_heads
      from unnest(v_lane.ids) u (lane_id);
  end if;
  update laneway.reader set ready = true where lane_id = any (v_lane.ids) and not ready;

  v_now := clock_timestamp();
  if p_keys is not null then
    -- Mostly every key is new, and an insert that need not be ready for conflicts costs a third.
    begin
      insert into laneway.dedup_key (queue_id, scope, key, segment, lane_id, seq, expires_at)
      select i.queue_id, i.scope, i.key, v_segments[i.lane_group], v_lane.ids[i.lane_group], v_heads[i.lane_group] + i.place, v_now + v_queue.windows[least(i.lane_group, v_width)]
        from (select i.queue_id, case when v_queue.scoped[least(i.lane_group, v_width)] then coalesce(i.part, '') else '' end as scope, i.key, i.lane_group, i.place
                from unnest(v_queues, v_partitions, v_keys, v_item.groups, v_item.places) i (queue_id, part, key, lane_group, place) where i.key is not null) i
       order by i.key collate "C", i.queue_id, i.scope collate "C";
      get diagnostics v_taken = row_count;
    exception
      when unique_violation then
        v_taken := 0; -- one of them is known, or comes twice
      when program_limit_exceeded then
        perform laneway.raise_long_dedup_key(v_queues, v_partitions, v_keys);
    end;
    if v_taken < v_count - pg_catalog.num_nulls(variadic v_keys) then
      select t.* into v_take, v_item.places, v_first_segments, v_first_lanes, v_first_seqs
        from (select array_agg(case when v_queue.scoped[least(i.lane_group, v_width)] then coalesce(i.part, '') else '' end) as scopes, array_agg(v_segments[i.lane_group]) as segments,
                     array_agg(v_lane.ids[i.lane_group]) as ids, array_agg(v_heads[i.lane_group]) as heads, array_agg(v_now + v_queue.windows[least(i.lane_group, v_width)]) as expiries
                from unnest(v_partitions, v_item.groups) with ordinality i (part, lane_group, n)) i,
             laneway.insert_dedup_keys(v_queues, i.scopes, v_keys, i.segments, i.ids, i.heads, i.expiries, v_now) t;
      v_lane.messages := array(select count(*) filter (where i.take) from unnest(v_item.groups, v_take) i (lane_group, take) group by i.lane_group order by i.lane_group);
    end if;
  end if;

  v_now := clock_timestamp(); -- just before what is written: history looks for the event of a message by its time
  -- A microsecond each, which is less than writing one takes: by the clock, two lanes' might be of one time, and their order lost.
  insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, lease, max_attempts, key, headers, body)
  select v_segments[i.lane_group], v_lane.ids[i.lane_group], v_heads[i.lane_group] + i.place, v_now + i.n * interval '1 microsecond', nullif(v_now + coalesce(v_delays[i.n], v_queue.delays[least(i.lane_group, v_width)]), v_now),
         v_leases[i.n], v_max_attempts[i.n], i.key, v_headers[i.n], i.body
    from unnest(p_bodies, v_item.groups, v_item.places, v_keys, v_take) with ordinality i (body, lane_group, place, key, take, n) where i.take is not false;
  insert into laneway.event (segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq, detail, part_lane, part_first, part_last, largest)
  select l.segment - l.segment % 2, v_now, 'pushed', l.queue_id, case when count(*) = 1 then min(l.lane_id) end, l.segment, case when count(*) = 1 then min(l.head) + 1 end,
         case when count(*) = 1 then min(l.head + l.messages) end, p_ride, case when count(*) > 1 then array_agg(l.lane_id) end, case when count(*) > 1 then array_agg(l.head + 1) end,
         case when count(*) > 1 then array_agg(l.head + l.messages) end, case when count(*) > 1 then (select max(pg_catalog.pg_column_size(b.body)) from unnest(p_bodies) b (body)) end
    from unnest(v_lane.queues, v_lane.ids, v_segments, v_heads, v_lane.messages) with ordinality l (queue_id, lane_id, segment, head, messages, i)
   where v_queue.recorded[least(l.i, v_width)] and l.messages > 0 group by l.queue_id, l.segment;
  return query
    select i.n::int - 1, 1, coalesce(v_first_segments[i.n], v_segments[i.lane_group]), coalesce(v_first_lanes[i.n], v_lane.ids[i.lane_group]),
           coalesce(v_first_seqs[i.n], v_heads[i.lane_group] + i.place), i.take is false
      from unnest(v_item.groups, v_item.places, v_take) with ordinality i (lane_group, place, take, n);
end $$;
