-- push_many's general path: several queues, partitions or priorities in one call, delays, keys, headers, leases.
-- Same arguments, answer, locks and errors as push_many; answers one row per item.
create or replace function laneway.push_mixed(
  p_queues int[], p_bodies json[], p_partitions text[], p_priorities smallint[], p_delays interval[], p_keys text[],
  p_headers json[], p_leases interval[], p_max_attempts smallint[], p_ride json default null)
returns table (idx int, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_count int := coalesce(cardinality(p_bodies), 0);
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
  v_lane record;         -- arrays, per lane
  v_segment int; v_unlogged int;
  v_segments int[]; v_heads bigint[]; v_asleep int[];
  v_duplicates int[];
  v_now timestamptz;
begin
  if coalesce(v_count, 0) = 0 then
    return;
  end if;
  if coalesce(cardinality(p_queues), 0) not in (1, v_count) or coalesce(cardinality(p_partitions), 1) not in (1, v_count)
     or coalesce(cardinality(p_priorities), 1) not in (1, v_count) or coalesce(cardinality(p_delays), 1) not in (1, v_count)
     or coalesce(cardinality(p_keys), 1) not in (1, v_count) or coalesce(cardinality(p_headers), 1) not in (1, v_count)
     or coalesce(cardinality(p_leases), 1) not in (1, v_count) or coalesce(cardinality(p_max_attempts), 1) not in (1, v_count) then
    raise exception 'each array must have one element or as many as there are bodies (%)', v_count using errcode = 'LW422';
  end if;
  if pg_catalog.num_nulls(variadic p_bodies) > 0 then
    raise exception 'every message must have a body' using errcode = 'LW422', hint = 'JSON''s null is written ''null''.';
  end if;
  if exists (select from unnest(p_leases) l (lease) where l.lease <= interval '0') or exists (select from unnest(p_max_attempts) a (attempts) where a.attempts < 1) then
    raise exception 'a lease must be longer than nothing, and attempts at least one' using errcode = 'LW422';
  end if;
  select array_agg(u.lane_group order by u.n) into v_group from (
    select i.n, dense_rank() over (order by i.queue_id, coalesce(i.part, ''), coalesce(i.priority, 0::smallint))::int as lane_group
      from unnest(v_queues, v_partitions, v_priorities) with ordinality i (queue_id, part, priority, n)) u;

  select array_agg(g.part) as parts, array_agg(g.priority) as priorities, array_agg(g.queue_id) as queues, array_agg(q.queue_id) as found, array_agg(l.lane_id) as ids,
         array_agg(q.ordered) as ordered, array_agg(q.kind <> 'unlogged') as logged, array_agg(q.delay) as delays, array_agg(q.dedup_scope = 'partition') as scoped,
         array_agg(q.dedup_window) as windows, array_agg(q.record_events) as recorded, min(q.max_bytes) as least_bytes, bool_or(q.kind = 'unlogged') as any_unlogged
    into v_lane
    from (select distinct i.queue_id, coalesce(i.part, '') as part, coalesce(i.priority, 0::smallint) as priority
            from unnest(v_queues, v_partitions, v_priorities) i (queue_id, part, priority) order by 1, 2, 3) g
    left join lateral (select o.* from laneway.queue o where o.queue_id = g.queue_id offset 0) q on true
    left join lateral (select o.lane_id from laneway.lane o where o.queue_id = g.queue_id and o.partition = g.part and o.priority = g.priority and o.stripe = 0 offset 0) l on true;
  if array_position(v_lane.found, null) is not null then
    raise exception 'queue % does not exist', v_lane.queues[array_position(v_lane.found, null)] using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  -- What was taken into the outbox was small enough when it was.
  if pg_catalog.pg_column_size(p_bodies) > v_lane.least_bytes and pg_catalog.current_setting('laneway.draining', true) is distinct from 'on' then
    perform laneway.check_sizes(q.name, q.max_bytes, array(select case when i.queue_id = q.queue_id then i.body else '0' end
              from unnest(v_queues, p_bodies) with ordinality i (queue_id, body, n) order by i.n))
       from laneway.queue q where q.queue_id = any (v_lane.queues);
  end if;
  for i in 1..cardinality(v_lane.ids) loop
    if v_lane.ordered[i] and v_lane.ids[i] is not null then
      perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane.ids[i]);
    elsif v_lane.ids[i] is null or not pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane.ids[i]) then
      v_lane.ids[i] := laneway.lock_lane(v_lane.queues[i], v_lane.parts[i], v_lane.priorities[i], v_lane.ordered[i]);
    end if;
  end loop;

  -- Read only now, under the locks: the current segments, the lanes' newest seqs, and who must be woken.
  v_segment := laneway.current_segment(true);
  if v_lane.any_unlogged then
    v_unlogged := laneway.current_segment(false);
  end if;
  v_segments := array(select case when o.logged then v_segment else v_unlogged end from unnest(v_lane.logged) o (logged));
  select array_agg(coalesce(h.seq, laneway.newest_seq(u.lane_id, u.segment))), array_agg(u.lane_id) filter (where exists (
           select from laneway.reader r where r.lane_id = u.lane_id and not r.ready))
    into v_heads, v_asleep
    from unnest(v_lane.ids, v_segments) u (lane_id, segment)
    left join lateral (select m.seq from laneway.message m where m.segment in (v_segment, v_unlogged) and m.segment = u.segment and m.lane_id = u.lane_id
                        order by m.seq desc limit 1) h on true;
  if v_asleep is not null then
    update laneway.reader set ready = true where lane_id = any (v_asleep) and not ready;
  end if;

  v_now := clock_timestamp();
  v_take := array_fill(true, array[v_count]);
  if p_keys is not null then
    -- First occurrences get the place they would have if no key were taken; the rest repeat them.
    select array_agg(k.key is null or k.occurrence = 1 order by k.n) into v_take from (
      select i.n, i.key, row_number() over (partition by i.queue_id, case when v_lane.scoped[i.lane_group] then coalesce(i.part, '') else '' end, i.key order by i.n) as occurrence
        from unnest(v_queues, v_partitions, v_keys, v_group) with ordinality i (queue_id, part, key, lane_group, n)) k;
    with candidate as (
      select i.n, i.queue_id, case when v_lane.scoped[i.lane_group] then coalesce(i.part, '') else '' end as scope, i.key, i.lane_group,
             v_heads[i.lane_group] + row_number() over (partition by i.lane_group order by i.n) as seq
        from unnest(v_queues, v_partitions, v_keys, v_group, v_take) with ordinality i (queue_id, part, key, lane_group, take, n) where i.take),
    taken as (
      insert into laneway.dedup_key as d (queue_id, scope, key, segment, lane_id, seq, expires_at)
      select c.queue_id, c.scope, c.key, v_segments[c.lane_group], v_lane.ids[c.lane_group], c.seq, v_now + v_lane.windows[c.lane_group]
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
        select i.queue_id, case when v_lane.scoped[i.lane_group] then coalesce(i.part, '') else '' end as scope, i.key,
               v_heads[i.lane_group] + row_number() over (partition by i.lane_group order by i.n) as seq
          from unnest(v_queues, v_partitions, v_keys, v_group, v_take) with ordinality i (queue_id, part, key, lane_group, take, n) where i.take)
      update laneway.dedup_key d set seq = p.seq from placed p
       where d.queue_id = p.queue_id and d.scope = p.scope and d.key = p.key and d.seq <> p.seq;
    end if;
  end if;

  insert into laneway.message (segment, lane_id, seq, created_at, deliver_at, lease, max_attempts, key, headers, body)
  select v_segments[i.lane_group], v_lane.ids[i.lane_group], v_heads[i.lane_group] + row_number() over (partition by i.lane_group order by i.n),
         clock_timestamp(), nullif(v_now + coalesce(v_delays[i.n], v_lane.delays[i.lane_group]), v_now),
         v_leases[i.n], v_max_attempts[i.n], v_keys[i.n], v_headers[i.n], i.body
    from unnest(p_bodies, v_group, v_take) with ordinality i (body, lane_group, take, n) where i.take order by i.n;

  insert into laneway.event (segment, at, action, queue_id, lane_id, message_segment, first_seq, last_seq, detail)
  select v_segments[i.lane_group] - v_segments[i.lane_group] % 2, v_now, 'pushed', min(v_queues[i.n]), v_lane.ids[i.lane_group], v_segments[i.lane_group],
         v_heads[i.lane_group] + 1, v_heads[i.lane_group] + count(*), p_ride
    from unnest(v_group, v_take) with ordinality i (lane_group, take, n) where i.take and v_lane.recorded[i.lane_group] group by i.lane_group;

  return query
    select i.n::int - 1, 1, coalesce(d.segment, v_segments[i.lane_group]), coalesce(d.lane_id, v_lane.ids[i.lane_group]),
           coalesce(d.seq, v_heads[i.lane_group] + sum(case when i.take then 1 else 0 end) over (partition by i.lane_group order by i.n)::bigint), not i.take
      from unnest(v_queues, v_partitions, v_keys, v_group, v_take) with ordinality i (queue_id, part, key, lane_group, take, n)
      left join lateral (
        select k.segment, k.lane_id, k.seq from laneway.dedup_key k
         where not i.take and k.queue_id = i.queue_id and k.scope = case when v_lane.scoped[i.lane_group] then coalesce(i.part, '') else '' end and k.key = i.key
         limit 1) d on true
     order by i.n;
end $$;
