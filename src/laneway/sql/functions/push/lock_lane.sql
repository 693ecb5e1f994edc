-- Lock a lane of a queue, partition and priority, and create it if it is new. Return its id.
-- An ordered queue has one such lane; the call waits for it. An unordered queue has up to 16 stripes: if one is locked
-- by another push, the call tries the next, then creates one.
-- Locks: the lane's advisory lock, through commit.
-- Errors: LW404 the queue does not exist, LW422 the partition is too long for an index.
create or replace function laneway.lock_lane(p_queue_id int, p_partition text, p_priority smallint, p_ordered boolean)
returns int
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_stripes int[];
  v_lane_id int;
begin
  v_stripes := array(
    select l.lane_id
      from laneway.lane l
     where l.queue_id = p_queue_id
       and l.partition = p_partition
       and l.priority = p_priority
     order by l.stripe);
  if v_stripes = '{}' then
    v_stripes := array[laneway.create_lane(p_queue_id, p_partition, p_priority, 0::smallint)];
  end if;
  if p_ordered then
    perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_stripes[1]);
    return v_stripes[1];
  end if;

  -- Each connection starts at another stripe, so that few tries fail.
  for i in 1..cardinality(v_stripes) loop
    v_lane_id := v_stripes[1 + (pg_catalog.pg_backend_pid() + i) % cardinality(v_stripes)];
    if pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane_id) then
      return v_lane_id;
    end if;
  end loop;
  if cardinality(v_stripes) < 16 then
    v_lane_id := laneway.create_lane(
      p_queue_id,
      p_partition,
      p_priority,
      (select min(n.stripe)::smallint
         from generate_series(0, 15) n (stripe)
        where not exists (
                select
                  from laneway.lane l
                 where l.queue_id = p_queue_id
                   and l.partition = p_partition
                   and l.priority = p_priority
                   and l.stripe = n.stripe)));
  else
    v_lane_id := v_stripes[1 + pg_catalog.pg_backend_pid() % 16];
  end if;
  perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane_id);
  return v_lane_id;
end $$;
