-- Return partitions of queues, oldest first, with their base and newest seq and when they were last pushed to. The
-- arrays have one element per queue: p_since, only partitions pushed to since then (null: all); p_after, those of lanes
-- after this one; p_limits, at most so many. A queue's last row has no lane; it says in next_lane where to continue,
-- null at the end.
-- The first row has only safe_time: every push up to then counts in this result. A push that was not committed yet
-- began later.
-- A call looks at 5000 partitions of each queue at most for those that changed, so a page may be short.
-- Locks: none. Errors: none.
create or replace function laneway.list_changed_partitions(
  p_queues int[], p_since timestamptz[], p_after int[], p_limits int[])
returns table (
  idx int, lane_id int, partition text, base bigint, newest bigint, pushed_at timestamptz, next_lane int,
  safe_time timestamptz)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_look int;                 -- how many lanes to look at
  v_now timestamptz := clock_timestamp();
  v_logged boolean;
  v_segment int;
  v_row record;
  -- the lanes that are looked at
  v_lanes record;
  v_newest bigint[];
  v_times timestamptz[];
  v_found int;
  v_next int;
begin
  -- A push has the lane's lock from before it reads the clock until its commit can be seen. So what a push that
  -- takes its lock from now on writes is younger than v_now. Of other roles' transactions the begin may be hidden.
  select least(v_now, min(coalesce(a.xact_start, v_now - interval '1 hour')))
    into safe_time
    from pg_catalog.pg_locks k
    left join pg_catalog.pg_stat_activity a on a.pid = k.pid
   where k.locktype = 'advisory'
     and k.classid = 'laneway.lane'::regclass::oid
     and k.objsubid = 2
     and k.granted
     and k.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database());
  return next;
  safe_time := null;

  for i in 1..coalesce(cardinality(p_queues), 0) loop
    idx := i - 1;
    v_look := case when p_since[i] is null then p_limits[i] + 1 else 5000 end;
    v_logged := (select q.kind <> 'unlogged' from laneway.queue q where q.queue_id = p_queues[i]);
    select array_agg(l.lane_id) as ids, array_agg(l.partition) as partitions, array_agg(l.base) as bases,
           array_agg(l.created_at) as births
      into v_lanes
      from (select o.lane_id, o.partition, o.base, o.created_at
              from laneway.lane o
             where o.queue_id = p_queues[i]
               and o.lane_id > coalesce(p_after[i], 0)
             order by o.lane_id
             limit v_look) l;
    v_next := null;
    if v_lanes.ids is not null then
      -- The newest message of each, in the newest segment that has one. A push may begin in a segment and write after
      -- that was closed, but no hour later.
      v_newest := array_fill(null::bigint, array[cardinality(v_lanes.ids)]);
      v_times := array_fill(null::timestamptz, array[cardinality(v_lanes.ids)]);
      for v_segment in
        select s.segment
          from laneway.segment s
         where laneway.is_logged(s.segment) = v_logged
           and s.opened_at is not null
           and (p_since[i] is null or s.closed_at is null or s.closed_at > p_since[i] - interval '1 hour')
         order by s.segment desc
      loop
        for v_row in
          select u.n, m.seq, m.created_at
            from unnest(v_lanes.ids, v_newest) with ordinality u (lane_id, newest, n)
           cross join lateral (
             select o.seq, o.created_at
               from laneway.message o
              where o.segment = v_segment
                and o.lane_id = u.lane_id
              order by o.seq desc
              limit 1) m
           where u.newest is null
        loop
          v_newest[v_row.n] := v_row.seq;
          v_times[v_row.n] := v_row.created_at;
        end loop;
        exit when array_position(v_newest, null) is null;
      end loop;

      v_found := 0;
      v_next := case when cardinality(v_lanes.ids) = v_look then v_lanes.ids[v_look] end;
      v_segment := laneway.current_segment(v_logged);
      for j in 1..cardinality(v_lanes.ids) loop
        continue when p_since[i] is not null and (v_times[j] >= p_since[i]) is not true;
        if v_found = p_limits[i] then
          v_next := lane_id;
          exit;
        end if;
        lane_id := v_lanes.ids[j];
        partition := v_lanes.partitions[j];
        base := v_lanes.bases[j];
        newest := coalesce(v_newest[j], laneway.newest_seq(lane_id, v_segment));
        pushed_at := coalesce(v_times[j], v_lanes.births[j]);
        v_found := v_found + 1;
        return next;
      end loop;
    end if;
    lane_id := null;
    partition := null;
    base := null;
    newest := null;
    pushed_at := null;
    next_lane := v_next;
    return next;
    next_lane := null;
  end loop;
end $$;
