-- Delete all messages of a group that are in one state, or in any (p_status null). Messages that are pushed meanwhile
-- stay.
-- One call is a step of up to 500 lanes, so that it does not need too many locks. purged: the messages deleted so far,
-- in this step and, as p_purged, those before. after: null at the end, else the lane to continue after: call again with
-- it as p_after, in another transaction.
-- Locks: the readers' advisory locks, in order of lane, and their claims' rows, in order of token; lanes' advisory
-- locks, never waiting for one.
-- Errors: LW404 unknown group, LW422 an unknown state.
create or replace function laneway.purge(
  p_group_id int, p_status text default null, p_after int default null, p_purged bigint default 0,
  out purged bigint, out after int)
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_queue record;
  v_reader record;
  v_lanes int := 0;
begin
  purged := coalesce(p_purged, 0);
  if p_status not in ('queued', 'processing', 'acknowledged', 'dead', 'archived') then
    raise exception 'cannot purge "%"', p_status
      using errcode = 'LW422', hint = 'States are queued, processing, acknowledged, dead and archived.';
  end if;
  select q.queue_id, q.logged into v_queue from laneway.find_queue_of_group(p_group_id) q;

  for v_reader in
    select r.reader_id, r.lane_id
      from laneway.reader r
     where r.group_id = p_group_id
       and r.lane_id > coalesce(p_after, 0)
     order by r.lane_id
     limit 500
  loop
    v_lanes := v_lanes + 1;
    after := v_reader.lane_id;
    perform laneway.lock_reader(v_reader.reader_id);
    -- Skip a lane that was removed while this waited for the lock.
    continue when not exists (select from laneway.reader r where r.reader_id = v_reader.reader_id);
    purged := purged + laneway.purge_reader(v_reader.reader_id, v_reader.lane_id, v_queue.logged, p_status);
  end loop;
  if v_lanes = 500 then
    return;
  end if;

  after := null;
  perform laneway.insert_event('purged', v_queue.queue_id, p_group_id,
                               p_detail => json_build_object('status', p_status, 'count', purged));
end $$;
