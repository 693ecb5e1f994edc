-- push_many's general path: several queues, partitions or priorities in one call, delays, keys.
-- Same arguments, answer, locks and errors as push_many; answers one row per item.
create or replace function laneway.push_mixed(
  p_queues int[], p_bodies json[], p_partitions text[], p_priorities smallint[], p_delays interval[], p_keys text[],
  p_headers json[], p_leases interval[], p_max_attempts smallint[])
returns table (idx int, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_count int := cardinality(p_bodies);
  v_queues int[] := case when cardinality(p_queues) = 1 then array_fill(p_queues[1], array[v_count]) else p_queues end;
  v_partitions text[] := case when cardinality(p_partitions) = v_count then p_partitions else array_fill(p_partitions[1], array[v_count]) end;
  v_priorities smallint[] := case when cardinality(p_priorities) = v_count then p_priorities else array_fill(p_priorities[1], array[v_count]) end;
  v_delays interval[] := case when cardinality(p_delays) = v_count then p_delays else array_fill(p_delays[1], array[v_count]) end;
  v_keys text[] := case when cardinality(p_keys) = v_count then p_keys else array_fill(p_keys[1], array[v_count]) end;
  v_headers json[] := case when cardinality(p_headers) = v_count then p_headers else array_fill(p_headers[1], array[v_count]) end;
  v_leases interval[] := case when cardinality(p_leases) = v_count then p_leases else array_fill(p_leases[1], array[v_count]) end;
  v_max_attempts smallint[] := case when cardinality(p_max_attempts) = v_count then p_max_attempts else array_fill(p_max_attempts[1], array[v_count]) end;
  v_group int[];         -- per item: which of the lanes below
  v_take boolean[];      -- per item: written, not a duplicate
  v_lanes int[] := '{}'; v_segments int[] := '{}'; v_heads bigint[] := '{}'; v_delay interval[] := '{}';
  v_scoped boolean[] := '{}'; v_windows interval[] := '{}'; v_recorded boolean[] := '{}';
  v_queue laneway.queue;
  v_lane int;
  v_place record;
  v_duplicates int[];
  v_now timestamptz;
  g record;
begin
  if cardinality(v_queues) is distinct from v_count or cardinality(v_partitions) <> v_count or cardinality(v_priorities) <> v_count then
    raise exception 'each array must have one element or as many as there are bodies (%)', v_count using errcode = 'LW422';
  end if;
  select array_agg(u.lane_group order by u.n) into v_group from (
    select i.n, dense_rank() over (order by i.queue_id, coalesce(i.part, ''), coalesce(i.priority, 0::smallint))::int as lane_group
      from unnest(v_queues, v_partitions, v_priorities) with ordinality i (queue_id, part, priority, n)) u;

  for g in
    select distinct i.queue_id, coalesce(i.part, '') as part, coalesce(i.priority, 0::smallint) as priority
      from unnest(v_queues, v_partitions, v_priorities) i (queue_id, part, priority) order by 1, 2, 3
  loop
    if v_queue.queue_id is distinct from g.queue_id then
      select q.* into v_queue from laneway.queue q where q.queue_id = g.queue_id;
      if not found then
        raise exception 'queue % does not exist', g.queue_id using errcode = 'LW404', hint = 'Create the queue first.';
      end if;
      if pg_catalog.pg_column_size(p_bodies) > v_queue.max_bytes then
        perform laneway.check_sizes(v_queue.name, v_queue.max_bytes,
          array(select case when i.queue_id = v_queue.queue_id then i.body else '0' end
                  from unnest(v_queues, p_bodies) with ordinality i (queue_id, body, n) order by i.n));
      end if;
    end if;
    v_lane := laneway.lock_lane(g.queue_id, g.part, g.priority, v_queue.ordered);
    select s.segment,
           (select m.seq from laneway.message m where m.segment = s.segment and m.lane_id = v_lane order by m.seq desc limit 1) as head,
           exists (select from laneway.reader r where r.lane_id = v_lane and not r.ready) as asleep
      into v_place
      from laneway.segment s
     where s.opened_at is not null and s.segment % 2 = case when v_queue.kind <> 'unlogged' then 0 else 1 end
     order by s.segment desc limit 1;
    if v_place.head is null then
      v_place.head := laneway.newest_seq(v_lane, v_place.segment);
    end if;
    if v_place.asleep then
      update laneway.reader set ready = true where lane_id = v_lane and not ready;
    end if;
    v_lanes := v_lanes || v_lane; v_segments := v_segments || v_place.segment; v_heads := v_heads || v_place.head;
    v_delay := v_delay || v_queue.delay; v_scoped := v_scoped || (v_queue.dedup_scope = 'partition');
    v_windows := v_windows || v_queue.dedup_window; v_recorded := v_recorded || v_queue.record_events;
  end loop;

  v_now := clock_timestamp();
  v_take := array_fill(true, array[v_count]);
  if p_keys is not null then
    -- First occurrences get the place they would have if no key were taken; the rest repeat them.
    select array_agg(k.key is null or k.occurrence = 1 order by k.n) into v_take from (
      select i.n, i.key, row_number() over (partition by i.queue_id, case when v_scoped[i.lane_group] then coalesce(i.part, '') else '' end, i.key order by i.n) as occurrence
        from unnest(v_queues, v_partitions, v_keys, v_group) with ordinality i (queue_id, part, key, lane_group, n)) k;
    with candidate as (
      select i.n, i.queue_id, case when v_scoped[i.lane_group] then coalesce(i.part, '') else '' end as scope, i.key, i.lane_group,
             v_heads[i.lane_group] + row_number() over (partition by i.lane_group order by i.n) as seq
        from unnest(v_queues, v_partitions, v_keys, v_group, v_take) with ordinality i (queue_id, part, key, lane_group, take, n) where i.take),
    taken as (
      insert into laneway.dedup_key as d (queue_id, scope, key, segment, lane_id, seq, expires_at)
      select c.queue_id, c.scope, c.key, v_segments[c.lane_group], v_lanes[c.lane_group], c.seq, v_now + v_windows[c.lane_group]
        from candidate c where c.key is not null order by c.queue_id, c.scope, c.key
      on conflict (queue_id, scope, key) do update
        set segment = excluded.segment, lane_id = excluded.lane_id, seq = excluded.seq, expires_at = excluded.expires_at
        where d.expires_at <= v_now
      returning queue_id, scope, key)
    select array_agg(c.n) into v_duplicates from candidate c
     where c.key is not null and not exists (select from taken t where t.queue_id = c.queue_id and t.scope = c.scope and t.key = c.key);
    if v_duplicates is not null then
      select array_agg(i.take and i.n <> all (v_duplicates) order by i.n) into v_take from unnest(v_take) with ordinality i (take, n);
      with placed as (
        select i.queue_id, case when v_scoped[i.lane_group] then coalesce(i.part, '') else '' end as scope, i.key,
               v_heads[i.lane_group] + row_number() over (partition by i.lane_group order by i.n) as seq
          from unnest(v_queues, v_partitions, v_keys, v_group, v_take) with ordinality i (queue_id, part, key, lane_group, take, n) where i.take)
      update laneway.dedup_key d set seq = p.seq from placed p
       where d.queue_id = p.queue_id and d.scope = p.scope and d.key = p.key and d.seq <> p.seq;
    end if;
  end if;

  insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, lease, max_attempts, key, headers, body)
  select v_segments[i.lane_group], v_lanes[i.lane_group], v_heads[i.lane_group] + row_number() over (partition by i.lane_group order by i.n),
         clock_timestamp(), nullif(v_now + coalesce(v_delays[i.n], v_delay[i.lane_group]), v_now),
         v_leases[i.n], v_max_attempts[i.n], v_keys[i.n], v_headers[i.n], i.body
    from unnest(p_bodies, v_group, v_take) with ordinality i (body, lane_group, take, n) where i.take order by i.n;

  insert into laneway.event (segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq)
  select laneway.current_segment(true), v_now, 'pushed', min(v_queues[i.n]), v_lanes[i.lane_group], v_segments[i.lane_group],
         v_heads[i.lane_group] + 1, v_heads[i.lane_group] + count(*)
    from unnest(v_group, v_take) with ordinality i (lane_group, take, n) where i.take and v_recorded[i.lane_group] group by i.lane_group;

  return query
    select i.n::int - 1, 1, coalesce(d.segment, v_segments[i.lane_group]), coalesce(d.lane_id, v_lanes[i.lane_group]),
           coalesce(d.seq, v_heads[i.lane_group] + sum(case when i.take then 1 else 0 end) over (partition by i.lane_group order by i.n)::bigint), not i.take
      from unnest(v_queues, v_partitions, v_keys, v_group, v_take) with ordinality i (queue_id, part, key, lane_group, take, n)
      left join lateral (
        select k.segment, k.lane_id, k.seq from laneway.dedup_key k
         where not i.take and k.queue_id = i.queue_id and k.scope = case when v_scoped[i.lane_group] then coalesce(i.part, '') else '' end and k.key = i.key
         limit 1) d on true
     order by i.n;
end $$;
