-- Move a group, or its part in one partition (p_partition), to another position: 'earliest' (the oldest kept message),
-- 'latest' (the end), 'time' (messages since p_time) or 'seq' (p_seq is the next one). Its claims and parked messages
-- are deleted; dead letters and archived messages stay what they are.
-- One call is a step of up to 500 lanes, so that it does not need too many locks. moved: the lanes moved so far, in
-- this step and, as p_moved, those before. after: null at the end, else the lane to continue after: call again with it
-- as p_after, in another transaction.
-- Locks: the readers' advisory locks, in order of lane; lanes' advisory locks, never waiting for one.
-- Errors: LW404 unknown group, LW422 an invalid target.
create or replace function laneway.seek(
  p_group_id int, p_to text, p_time timestamptz default null, p_seq bigint default null, p_partition text default null,
  p_after int default null, p_moved int default 0, out moved int, out after int)
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_queue record;
  v_reader record;
  v_lanes int := 0;
  v_newest bigint;
  v_seq bigint;
  v_kept_since timestamptz;
begin
  moved := coalesce(p_moved, 0);
  select q.queue_id, q.logged into v_queue from laneway.find_queue_of_group(p_group_id) q;
  if p_to is null or p_to not in ('earliest', 'latest', 'time', 'seq')
     or (p_to = 'time' and p_time is null)
     or (p_to = 'seq' and p_seq is null) then
    raise exception 'cannot seek to "%"', p_to
      using errcode = 'LW422', hint = 'Use earliest, latest, time with a timestamp, or seq with a sequence number.';
  end if;

  for v_reader in
    select r.reader_id, r.lane_id, l.base
      from laneway.reader r
      join laneway.lane l on l.lane_id = r.lane_id
     where r.group_id = p_group_id
       and r.lane_id > coalesce(p_after, 0)
       and (p_partition is null or l.partition = p_partition)
     order by r.lane_id
     limit 500
  loop
    v_lanes := v_lanes + 1;
    after := v_reader.lane_id;
    perform laneway.lock_reader(v_reader.reader_id);
    -- Skip a lane that was removed while this waited for the lock.
    continue when not exists (select from laneway.reader r where r.reader_id = v_reader.reader_id);

    v_newest := laneway.newest_seq(v_reader.lane_id, laneway.current_segment(v_queue.logged));
    v_seq := case p_to
      when 'earliest' then v_reader.base
      when 'latest' then v_newest
      when 'time' then laneway.seq_before(v_reader.lane_id, v_queue.logged, p_time)
      else least(greatest(greatest(p_seq, 1) - 1, v_reader.base), v_newest) end;
    if p_to = 'earliest' then
      -- For readers of the event: messages older than this had left the log.
      v_kept_since := least(v_kept_since, (
        select m.created_at
          from laneway.message m
         where m.lane_id = v_reader.lane_id
           and m.seq > v_reader.base
         order by m.seq
         limit 1));
    end if;
    perform laneway.reposition_reader(v_reader.reader_id, v_reader.lane_id, v_seq, v_queue.logged);
    if v_seq >= v_newest then
      perform laneway.mark_reader_idle(v_reader.reader_id, v_reader.lane_id);
    end if;
    moved := moved + 1;
  end loop;
  if v_lanes = 500 then
    return;
  end if;

  after := null;
  perform laneway.insert_event(
    'sought', v_queue.queue_id, p_group_id,
    p_detail => json_strip_nulls(json_build_object(
      'to', p_to, 'time', p_time, 'seq', p_seq, 'partition', p_partition, 'kept_since', v_kept_since)));
end $$;
