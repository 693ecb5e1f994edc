-- Puts a group, or its part in one partition, at the earliest kept message, at the end ('latest'), at a moment
-- ('time') or just before a seq ('seq'). What it held or had put by is forgotten; dead letters and archived
-- messages stay what they are. Answers how many lanes were moved.
-- Locks: the readers' advisory locks, in order of reader. Errors: LW404 unknown group, LW422 a bad target.
create or replace function laneway.seek(p_group_id int, p_to text, p_time timestamptz default null, p_seq bigint default null, p_partition text default null) returns int
language plpgsql set search_path = '' as $$
declare
  v_queue record;
  v_reader record;
  v_count int := 0;
  v_newest bigint;
begin
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
     where r.group_id = p_group_id and (p_partition is null or l.partition = p_partition) order by r.reader_id
  loop
    perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id);
    v_newest := laneway.newest_seq(v_reader.lane_id, laneway.current_segment(v_queue.logged));
    perform laneway.place_reader(v_reader.reader_id, v_reader.lane_id, case p_to
      when 'earliest' then v_reader.base
      when 'latest' then v_newest
      when 'time' then laneway.seq_before(v_reader.lane_id, v_queue.logged, p_time)
      else least(greatest(p_seq - 1, v_reader.base), v_newest) end, v_queue.logged);
    v_count := v_count + 1;
  end loop;
  insert into laneway.event (segment, at, action, queue_id, group_id, detail)
  values (laneway.current_segment(true), clock_timestamp(), 'sought', v_queue.queue_id, p_group_id,
          json_build_object('to', p_to, 'time', p_time, 'seq', p_seq, 'partition', p_partition));
  return v_count;
end $$;
