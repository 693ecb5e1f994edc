-- Delete all messages of a group that were pushed from p_from to p_to, both included, whatever their state. It works on
-- ranges of seqs, so a million messages cost as much as one.
-- One call is a step of up to 500 lanes, so that it does not need too many locks. deleted: the messages deleted so far,
-- in this step and, as p_deleted, those before. after: null at the end, else the lane to continue after: call again
-- with it as p_after, in another transaction.
-- Locks: the readers' advisory locks, in order of lane, and their claims' rows, in order of token; lanes' advisory
-- locks, never waiting for one.
-- Errors: LW404 unknown group, LW422 p_from or p_to is missing.
create or replace function laneway.delete_between(
  p_group_id int, p_from timestamptz, p_to timestamptz, p_after int default null, p_deleted bigint default 0,
  out deleted bigint, out after int)
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_queue record;
  v_reader record;
  v_lanes int := 0;
begin
  deleted := coalesce(p_deleted, 0);
  if p_from is null or p_to is null then
    raise exception 'a range of time needs both its ends'
      using errcode = 'LW422', hint = 'Give from and to.';
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
    deleted := deleted
      + laneway.delete_between_of_reader(v_reader.reader_id, v_reader.lane_id, v_queue.logged, p_from, p_to);
  end loop;
  if v_lanes = 500 then
    return;
  end if;

  after := null;
  perform laneway.insert_event('purged', v_queue.queue_id, p_group_id,
                               p_detail => json_build_object('from', p_from, 'to', p_to, 'count', deleted));
end $$;
