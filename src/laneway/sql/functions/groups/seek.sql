-- Puts a group, or its part in one partition, at the earliest kept message, at the end ('latest'), at a moment
-- ('time') or just before a seq ('seq'). What it held or had put by is forgotten; dead letters and archived
-- messages stay what they are. A step of up to 500 lanes: answers how many lanes were moved in all, and the lane it came
-- to. Where that is not null there are more: call again, in another transaction, with both of them.
-- Locks: the readers' advisory locks, in order of lane; lanes', never waiting for one. Errors: LW404 unknown group, LW422 a bad target.
create or replace function laneway.seek(
  p_group_id int, p_to text, p_time timestamptz default null, p_seq bigint default null, p_partition text default null,
  p_after int default null, p_moved int default 0, out moved int, out after int)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_queue record;
  v_reader record;
  v_lanes int := 0;
  v_newest bigint;
  v_seq bigint;
  v_kept timestamptz;
begin
  moved := coalesce(p_moved, 0);
  select q.queue_id, q.kind <> 'unlogged' as logged into v_queue
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  if p_to is null or p_to not in ('earliest', 'latest', 'time', 'seq') or (p_to = 'time' and p_time is null) or (p_to = 'seq' and p_seq is null) then
    raise exception 'cannot seek to "%"', p_to using errcode = 'LW422', hint = 'Say earliest, latest, time with a moment, or seq with a seq.';
  end if;
  for v_reader in
    select r.reader_id, r.lane_id, l.base from laneway.reader r join laneway.lane l on l.lane_id = r.lane_id
     where r.group_id = p_group_id and r.lane_id > coalesce(p_after, 0) and (p_partition is null or l.partition = p_partition) order by r.lane_id limit 500
  loop
    v_lanes := v_lanes + 1;
    after := v_reader.lane_id;
    perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id);
    continue when not exists (select from laneway.reader r where r.reader_id = v_reader.reader_id); -- its lane was removed just now
    v_newest := laneway.newest_seq(v_reader.lane_id, laneway.current_segment(v_queue.logged));
    v_seq := case p_to
      when 'earliest' then v_reader.base
      when 'latest' then v_newest
      when 'time' then laneway.seq_before(v_reader.lane_id, v_queue.logged, p_time)
      else least(greatest(greatest(p_seq, 1) - 1, v_reader.base), v_newest) end;
    if p_to = 'earliest' then
      -- for those who only have the event: what was older had left the log
      v_kept := least(v_kept, (select m.created_at from laneway.message m where m.lane_id = v_reader.lane_id and m.seq > v_reader.base order by m.seq limit 1));
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
    p_detail => json_strip_nulls(json_build_object('to', p_to, 'time', p_time, 'seq', p_seq, 'partition', p_partition, 'kept_since', v_kept)));
end $$;
