-- Takes the lock of a lane for (queue, partition, priority), making what is new. An ordered queue has one such
-- lane and waits for it; another one goes on to the next stripe, up to 16, where somebody else is pushing.
-- Locks: the lane's advisory lock, through commit. Errors: LW404 unknown queue, LW422 the partition is too long.
create or replace function laneway.lock_lane(p_queue_id int, p_partition text, p_priority smallint, p_ordered boolean) returns int
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_lanes int[];
  v_lane int;
begin
  v_lanes := array(select l.lane_id from laneway.lane l
                    where l.queue_id = p_queue_id and l.partition = p_partition and l.priority = p_priority order by l.stripe);
  if v_lanes = '{}' then
    v_lanes := array[laneway.create_lane(p_queue_id, p_partition, p_priority, 0::smallint)];
  end if;
  if p_ordered then
    perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lanes[1]);
    return v_lanes[1];
  end if;
  -- Everybody starts elsewhere, so that few are tried in vain.
  for i in 1..cardinality(v_lanes) loop
    v_lane := v_lanes[1 + (pg_catalog.pg_backend_pid() + i) % cardinality(v_lanes)];
    if pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane) then
      return v_lane;
    end if;
  end loop;
  if cardinality(v_lanes) < 16 then
    v_lane := laneway.create_lane(p_queue_id, p_partition, p_priority, (
      select min(n.stripe)::smallint from generate_series(0, 15) n (stripe)
       where not exists (select from laneway.lane l where l.queue_id = p_queue_id and l.partition = p_partition and l.priority = p_priority and l.stripe = n.stripe)));
  else
    v_lane := v_lanes[1 + pg_catalog.pg_backend_pid() % 16];
  end if;
  perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane);
  return v_lane;
end $$;
