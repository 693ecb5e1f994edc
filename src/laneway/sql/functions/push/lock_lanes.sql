-- Lock the lanes of one push, and create those that are new. The arrays have an element per lane, sorted by queue,
-- partition and priority; p_lane_ids: null for a new lane; p_ordered: whether its queue is ordered.
-- Return the ids of the lanes that are locked: those given, or other stripes of unordered queues (see lock_lane).
-- Called by push_mixed, under its settings.
-- Locks: the lanes' advisory locks, in order, through commit.
-- Errors: LW404 a queue does not exist, LW422 a partition is too long for an index.
create or replace function laneway.lock_lanes(
  p_queues int[],
  p_partitions text[],
  p_priorities smallint[],
  p_lane_ids int[],
  p_ordered boolean[])
returns int[]
language plpgsql as $$
begin
  if true = all (p_ordered) and array_position(p_lane_ids, null) is null then
    perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, l.lane_id)
       from unnest(p_lane_ids) l (lane_id);
    return p_lane_ids;
  end if;
  for i in 1..cardinality(p_lane_ids) loop
    if p_ordered[i] and p_lane_ids[i] is not null then
      perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, p_lane_ids[i]);
    elsif p_lane_ids[i] is null
          or not pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, p_lane_ids[i]) then
      p_lane_ids[i] := laneway.lock_lane(p_queues[i], p_partitions[i], p_priorities[i], p_ordered[i]);
    end if;
  end loop;
  return p_lane_ids;
end $$;
