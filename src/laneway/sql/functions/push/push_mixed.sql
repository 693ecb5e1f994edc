-- Append messages to the log by the general algorithm of push_many: several queues, partitions or priorities in one
-- call, delays, keys, headers, leases.
-- Arguments: see push_many. Return one row per message, in input order. Locks: see push_many. Errors: see push_many.
-- The helper functions check_push_arguments, find_push_lanes and lock_lanes run under the settings of this function:
-- settings of their own would double what a call costs.
create or replace function laneway.push_mixed(
  p_queues int[],
  p_bodies json[],
  p_partitions text[],
  p_priorities smallint[],
  p_delays interval[],
  p_keys text[],
  p_headers json[],
  p_leases interval[],
  p_max_attempts smallint[],
  p_event_detail json default null,
  p_guards smallint[] default null,
  p_windows interval[] default null)
returns table (idx int, messages int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_count int := coalesce(cardinality(p_bodies), 0);
  v_one_queue boolean := cardinality(p_queues) = 1;
  -- one element per message
  v_queues int[];
  v_partitions text[];
  v_keys text[];
  v_delays interval[];
  v_headers json[];
  v_leases interval[];
  v_max_attempts smallint[];
  v_message_lanes int[];         -- the number of its lane in the arrays below
  v_places int[];                -- its place among the messages for that lane
  v_new boolean[];               -- false: a duplicate, not written; null: no message is a duplicate
  v_first_segments int[];        -- where the first message is that a duplicate repeats
  v_first_lane_ids int[];
  v_first_seqs bigint[];
  -- one element per lane
  v_lanes record;                -- see find_push_lanes
  v_lane_count int;
  v_lane_ids int[];
  v_logged boolean[];
  v_queue_delays interval[];
  v_segments int[];
  v_heads bigint[];              -- the newest seq
  v_queue_guards smallint[];     -- see queue.guards
  v_by_partition boolean[];      -- dedup keys are per partition
  v_windows interval[];          -- for deduplication
  v_own_windows interval[];      -- one element per message: its own window; null: none has one

  v_settings record;             -- arrays, one element per lane, or one if all lanes are of one queue
  v_options_changed boolean;     -- null: a queue was deleted
  v_logged_segment int;
  v_unlogged_segment int;
  v_repeated boolean := false;   -- a dedup key is known, or occurs twice
  v_now timestamptz;
begin
  if v_count = 0 then
    return;
  end if;

  -- Normalise. Afterwards the arguments are valid, and those named v_ have one element per message or are null.
  perform laneway.check_push_arguments(
    v_count, p_queues, p_bodies, p_partitions, p_priorities, p_delays, p_keys, p_headers, p_leases, p_max_attempts,
    p_guards);
  v_queues := laneway.repeat_to_length(p_queues, v_count);
  v_keys := laneway.repeat_to_length(p_keys, v_count);
  v_delays := laneway.repeat_to_length(p_delays, v_count);
  v_headers := laneway.repeat_to_length(p_headers, v_count);
  v_leases := laneway.repeat_to_length(p_leases, v_count);
  v_max_attempts := laneway.repeat_to_length(p_max_attempts, v_count);

  -- Find the lanes and the settings of their queues. Afterwards every queue existed and every body fits.
  v_lanes := laneway.find_push_lanes(v_count, p_queues, p_partitions, p_priorities);
  v_message_lanes := v_lanes.message_lanes;
  v_places := v_lanes.message_places;
  v_lane_count := cardinality(v_lanes.queues);
  if v_one_queue then
    select array[q.queue_id] as queues,
           array[q.ordered] as ordered,
           array[q.kind <> 'unlogged'] as logged,
           array[q.delay] as delays,
           array[q.dedup_scope = 'partition'] as dedup_by_partition,
           array[q.dedup_window] as dedup_windows,
           array[q.record_events] as record_events,
           q.max_bytes as least_max_bytes,
           q.kind <> 'unlogged' as all_logged
      into v_settings
      from laneway.queue q
     where q.queue_id = p_queues[1];
  else
    select array_agg(q.queue_id) as queues,
           array_agg(q.ordered) as ordered,
           array_agg(q.kind <> 'unlogged') as logged,
           array_agg(q.delay) as delays,
           array_agg(q.dedup_scope = 'partition') as dedup_by_partition,
           array_agg(q.dedup_window) as dedup_windows,
           array_agg(q.record_events) as record_events,
           min(q.max_bytes) as least_max_bytes,
           bool_and(q.kind <> 'unlogged') as all_logged
      into v_settings
      from unnest(v_lanes.queues) u (queue_id)
      left join lateral (
        select o.queue_id, o.ordered, o.kind, o.delay, o.dedup_scope, o.dedup_window, o.record_events, o.max_bytes
          from laneway.queue o
         where o.queue_id = u.queue_id
        offset 0) q on true;
  end if;
  if v_settings.queues is null or array_position(v_settings.queues, null) is not null then
    raise exception 'queue % does not exist', v_lanes.queues[coalesce(array_position(v_settings.queues, null), 1)]
      using errcode = 'LW404',
            hint = 'Create the queue first.';
  end if;
  -- The outbox checked the sizes of its messages when they were inserted.
  if pg_catalog.pg_column_size(p_bodies) > v_settings.least_max_bytes
     and pg_catalog.current_setting('laneway.draining', true) is distinct from 'on' then
    perform laneway.check_sizes(
              q.name,
              q.max_bytes,
              array(select case when m.queue_id = q.queue_id then m.body else '0' end
                      from unnest(v_queues, p_bodies) with ordinality m (queue_id, body, n)
                     order by m.n))
       from laneway.queue q
      where q.queue_id = any (p_queues);
  end if;

  -- Lock the lanes. Afterwards all of them exist, and no other transaction can push to them before this one ends.
  if v_lane_count = 1
     and pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lanes.lane_ids[1]) then
    v_lane_ids := v_lanes.lane_ids;
  else
    v_lane_ids := laneway.lock_lanes(
      v_lanes.queues, v_lanes.partitions, v_lanes.priorities, v_lanes.lane_ids,
      laneway.repeat_to_length(v_settings.ordered, v_lane_count));
  end if;

  -- Read what the locks protect. Afterwards the queue options are those that the messages assume, and it is known in
  -- which segment each lane is written and what its newest seq is. Idle readers of the lanes are ready.
  if v_one_queue then
    select n.segment, coalesce(q.guards <> any (p_guards), false)
      into v_logged_segment, v_options_changed
      from laneway.newest_segment(true) n
     cross join laneway.queue q
     where q.queue_id = p_queues[1];
  else
    select n.segment, o.guards
      into v_logged_segment, v_queue_guards
      from laneway.newest_segment(true) n
     cross join (
       select array_agg(q.guards) as guards
         from unnest(v_lanes.queues) u (queue_id)
         left join lateral (
           select o.guards
             from laneway.queue o
            where o.queue_id = u.queue_id
           offset 0) q on true) o;
    v_options_changed := case when array_position(v_queue_guards, null) is null then false end;
    if p_guards is not null and not v_options_changed then
      v_options_changed := exists (
        select
          from unnest(v_message_lanes, laneway.repeat_to_length(p_guards, v_count)) m (lane, guards)
         where m.guards <> v_queue_guards[m.lane]);
    end if;
  end if;
  if v_options_changed is null then
    raise exception 'queue % was deleted during the push',
      v_lanes.queues[coalesce(array_position(v_queue_guards, null), 1)]
      using errcode = 'LW404',
            hint = 'Create the queue again.';
  elsif v_options_changed then
    raise exception 'queue options changed since they were read'
      using errcode = 'LW412',
            hint = 'Read the queue''s options again, then repeat the push.';
  end if;
  if v_settings.all_logged then
    select array_agg(v_logged_segment), array_agg(l.head)
      into v_segments, v_heads
      from (select coalesce(
                     (select m.seq
                        from laneway.message m
                       where m.segment = v_logged_segment
                         and m.lane_id = u.lane_id
                       order by m.seq desc
                       limit 1),
                     laneway.newest_seq(u.lane_id, v_logged_segment)) as head
              from unnest(v_lane_ids) u (lane_id)) l;
  else
    v_unlogged_segment := laneway.current_segment(false);
    v_logged := laneway.repeat_to_length(v_settings.logged, v_lane_count);
    select array_agg(l.segment), array_agg(l.head)
      into v_segments, v_heads
      from (select u.segment,
                   coalesce(
                     (select m.seq
                        from laneway.message m
                       where m.segment in (v_logged_segment, v_unlogged_segment)
                         and m.segment = u.segment
                         and m.lane_id = u.lane_id
                       order by m.seq desc
                       limit 1),
                     laneway.newest_seq(u.lane_id, u.segment)) as head
              from (select i.lane_id, case when i.logged then v_logged_segment else v_unlogged_segment end as segment
                      from unnest(v_lane_ids, v_logged) i (lane_id, logged)) u) l;
  end if;
  if exists (select from laneway.reader r where r.lane_id = any (v_lane_ids) and not r.ready) then
    update laneway.reader
       set ready = true
     where lane_id = any (v_lane_ids)
       and not ready;
  end if;

  -- Deduplicate. Afterwards every new message's key refers to it, and places and counts leave out the duplicates.
  if p_keys is not null then
    v_partitions := laneway.repeat_to_length(p_partitions, v_count);
    v_by_partition := laneway.repeat_to_length(v_settings.dedup_by_partition, v_lane_count);
    v_windows := laneway.repeat_to_length(v_settings.dedup_windows, v_lane_count);
    v_own_windows := laneway.repeat_to_length(p_windows, v_count);
    v_now := clock_timestamp();
    -- Usually all keys are new. A plain insert costs a third of one with "on conflict".
    begin
      insert into laneway.dedup_key (queue_id, scope, key, segment, lane_id, seq, expires_at)
      select m.queue_id, m.scope, m.key,
             v_segments[m.lane], v_lane_ids[m.lane], v_heads[m.lane] + m.place,
             v_now + coalesce(m.own_window, v_windows[m.lane])
        from (select u.queue_id, u.key, u.lane, u.place, u.own_window,
                     case when v_by_partition[u.lane] then coalesce(u.partition, '') else '' end as scope
                from unnest(v_queues, v_partitions, v_keys, v_message_lanes, v_places, v_own_windows)
                     u (queue_id, partition, key, lane, place, own_window)
               where u.key is not null) m
       order by m.key collate "C", m.queue_id, m.scope collate "C";
    exception
      when unique_violation then
        v_repeated := true;
      when program_limit_exceeded then
        perform laneway.raise_long_dedup_key(v_queues, v_partitions, v_keys);
    end;
    if v_repeated then
      select d.is_new, d.places, d.segments, d.lane_ids, d.seqs
        into v_new, v_places, v_first_segments, v_first_lane_ids, v_first_seqs
        from (select array_agg(case when v_by_partition[u.lane] then coalesce(u.partition, '') else '' end) as scopes,
                     array_agg(v_segments[u.lane]) as segments,
                     array_agg(v_lane_ids[u.lane]) as lane_ids,
                     array_agg(v_heads[u.lane]) as heads,
                     array_agg(v_now + coalesce(u.own_window, v_windows[u.lane])) as expiries
                from unnest(v_partitions, v_message_lanes, v_own_windows) u (partition, lane, own_window)) m
       cross join lateral laneway.separate_duplicates(
               v_queues, m.scopes, v_keys, m.segments, m.lane_ids, m.heads, m.expiries, v_now) d;
      v_lanes.message_counts := array(
        select count(*) filter (where m.is_new)
          from unnest(v_message_lanes, v_new) m (lane, is_new)
         group by m.lane
         order by m.lane);
    end if;
  end if;

  -- Write the messages, and an event per queue. Read the clock only now: history finds the event by the message's time.
  -- Messages are a microsecond apart, less than writing one takes, so that those of several lanes keep their order.
  v_now := clock_timestamp();
  v_queue_delays := laneway.repeat_to_length(v_settings.delays, v_lane_count);
  insert into laneway.message (
    segment, lane_id, seq, created_at, deliver_at, lease, max_attempts, key, headers, body)
  select v_segments[m.lane], v_lane_ids[m.lane], v_heads[m.lane] + m.place, v_now + m.n * interval '1 microsecond',
         nullif(v_now + coalesce(v_delays[m.n], v_queue_delays[m.lane]), v_now),
         v_leases[m.n], v_max_attempts[m.n], m.key, v_headers[m.n], m.body
    from unnest(p_bodies, v_message_lanes, v_places, v_keys, v_new)
         with ordinality m (body, lane, place, key, is_new, n)
   where m.is_new is not false;
  if p_event_detail -> 'producers' is null then
    insert into laneway.event (
      segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq, consumer, detail,
      part_lane, part_first, part_last, largest)
    select laneway.event_segment(l.segment), v_now, 'pushed', l.queue_id,
           laneway.only_element(array_agg(l.lane_id)),
           l.segment,
           laneway.only_element(array_agg(l.head + 1)),
           laneway.only_element(array_agg(l.head + l.messages)),
           p_event_detail ->> 'producer',
           p_event_detail,
           laneway.several_elements(array_agg(l.lane_id)),
           laneway.several_elements(array_agg(l.head + 1)),
           laneway.several_elements(array_agg(l.head + l.messages)),
           case when count(*) > 1
                then (select max(pg_catalog.pg_column_size(b.body)) from unnest(p_bodies) b (body)) end
      from unnest(
             v_lanes.queues, v_lane_ids, v_segments, v_heads, v_lanes.message_counts,
             laneway.repeat_to_length(v_settings.record_events, v_lane_count))
           l (queue_id, lane_id, segment, head, messages, record_events)
     where l.record_events
       and l.messages > 0
     group by l.queue_id, l.segment;
  else
    -- A part for each message, with its producer.
    insert into laneway.event (
      segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq, detail,
      part_lane, part_first, part_last, part_consumer, largest)
    select laneway.event_segment(e.segment), v_now, 'pushed', e.queue_id,
           case when e.one_lane then e.lanes[1] end,
           e.segment,
           case when e.one_lane then e.first_seq end,
           case when e.one_lane then e.last_seq end,
           case when p_event_detail -> 'largest' is not null
                then json_build_object('largest', p_event_detail -> 'largest') end,
           case when not e.one_lane then e.lanes end,
           e.seqs, e.seqs, e.producers,
           (select max(pg_catalog.pg_column_size(b.body)) from unnest(p_bodies) b (body))
      from (select l.queue_id, l.segment, min(l.lane_id) = max(l.lane_id) as one_lane,
                   min(l.head + m.place) as first_seq, max(l.head + m.place) as last_seq,
                   array_agg(l.lane_id order by m.n) as lanes,
                   array_agg(l.head + m.place order by m.n) as seqs,
                   array_agg(m.producer order by m.n) as producers
              from unnest(
                     v_message_lanes, v_places, v_new,
                     array(select o.name from json_array_elements_text(p_event_detail -> 'producers') o (name)))
                   with ordinality m (lane, place, is_new, producer, n)
              join unnest(
                     v_lanes.queues, v_lane_ids, v_segments, v_heads,
                     laneway.repeat_to_length(v_settings.record_events, v_lane_count))
                   with ordinality l (queue_id, lane_id, segment, head, record_events, lane)
                on l.lane = m.lane
             where l.record_events
               and m.is_new is not false
             group by l.queue_id, l.segment) e;
  end if;
  return query
    select m.n::int - 1,
           1,
           coalesce(v_first_segments[m.n], v_segments[m.lane]),
           coalesce(v_first_lane_ids[m.n], v_lane_ids[m.lane]),
           coalesce(v_first_seqs[m.n], v_heads[m.lane] + m.place),
           m.is_new is false
      from unnest(v_message_lanes, v_places, v_new) with ordinality m (lane, place, is_new, n);
end $$;
