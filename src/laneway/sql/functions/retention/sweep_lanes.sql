-- Delete lanes that nothing refers to (see is_lane_used), that are older than p_age and whose readers are all idle. If
-- their partition is used again, it gets a new lane with another id.
-- Look at p_limit lanes after p_after at most. removed: how many were deleted. after: null at the end, else the lane to
-- continue after.
-- Locks: the queue's advisory lock, shared; the lane's, so that no push is in progress; its readers'; never waiting for
-- one.
-- Errors: none.
create or replace function laneway.sweep_lanes(
  p_after int default null, p_limit int default 1000, p_age interval default '1 hour', out removed int, out after int)
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_lane record;
  v_readers int[];
  v_seen int := 0;
begin
  removed := 0;
  for v_lane in
    select l.lane_id, l.queue_id, l.created_at
      from laneway.lane l
     where l.lane_id > coalesce(p_after, 0)
     order by l.lane_id
     limit greatest(p_limit, 0)
  loop
    v_seen := v_seen + 1;
    after := v_lane.lane_id;
    continue when v_lane.created_at > clock_timestamp() - p_age or laneway.is_lane_used(v_lane.lane_id);
    continue when
      not pg_catalog.pg_try_advisory_xact_lock_shared('laneway.queue'::regclass::oid::int, v_lane.queue_id)
      or not pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane.lane_id);
    v_readers := array(select r.reader_id from laneway.reader r where r.lane_id = v_lane.lane_id);
    continue when exists (
      select from unnest(v_readers) r (reader_id)
       where not laneway.try_lock_reader(r.reader_id));
    -- Check again under the locks.
    continue when laneway.is_lane_used(v_lane.lane_id);
    delete from laneway.lane where lane_id = v_lane.lane_id;
    perform laneway.forget_readers(v_readers);
    removed := removed + 1;
  end loop;
  if v_seen < p_limit then
    after := null;
  end if;
end $$;
