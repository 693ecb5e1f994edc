-- Create a group that reads a whole queue. Return its id. If the group starts far behind the end of the queue, call
-- mark_readers_idle afterwards.
-- p_ordered: null for the queue's own setting.
-- p_start: 'all' for every kept message, 'new' for messages from now on, or 'time' for messages since p_from.
-- Locks: the queue's advisory lock, exclusive, so that no lane is missed; then its row, so that its settings do not
-- change.
-- Errors: LW404 unknown queue, LW409 the name is in use, LW422 an empty or too long name, an ordered group on an
-- unordered queue, or an invalid start.
create or replace function laneway.create_group(
  p_queue text, p_name text, p_ordered boolean default null, p_start text default 'all',
  p_from timestamptz default null)
returns int
language plpgsql
set search_path = ''
as $$
declare
  v_queue record;
  v_settings record;
  v_group int;
  v_segment int;
begin
  select q.queue_id, q.ordered, q.kind <> 'unlogged' as logged, q.rest_window is not null as rests into v_queue
    from laneway.queue q
   where q.name = p_queue;
  if not found then
    raise exception 'queue "%" does not exist', p_queue
      using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if p_ordered and not v_queue.ordered then
    raise exception 'queue "%" is not ordered, so group "%" must not be', p_queue, p_name
      using errcode = 'LW422', hint = 'Create the group without ordered, or another queue with ordered = true.';
  end if;
  if p_name is null or p_name = '' then
    raise exception 'a group''s name must not be empty'
      using errcode = 'LW422', hint = 'Choose a name.';
  end if;
  perform laneway.check_group_start(p_name, p_start, p_from);

  perform pg_catalog.pg_advisory_xact_lock('laneway.queue'::regclass::oid::int, v_queue.queue_id);
  select q.lease, q.record_events, q.durable_claims into v_settings
    from laneway.queue q
   where q.queue_id = v_queue.queue_id
     and q.name = p_queue
     for key share;
  if not found then
    raise exception 'queue "%" does not exist', p_queue
      using errcode = 'LW404', hint = 'It was deleted or renamed just now.';
  end if;

  v_segment := laneway.current_segment(v_queue.logged);
  begin
    insert into laneway.consumer_group (queue_id, name, ordered, lease, record_events, durable_claims)
    values (v_queue.queue_id, p_name, coalesce(p_ordered, v_queue.ordered), v_settings.lease, v_settings.record_events,
            (coalesce(p_ordered, v_queue.ordered) or v_settings.durable_claims) and v_queue.logged)
    on conflict do nothing
    returning group_id into v_group;
  exception when program_limit_exceeded then
    perform laneway.raise_long_name('a group''s name', octet_length(p_name));
  end;
  if v_group is null then
    raise exception 'group "%" of queue "%" already exists', p_name, p_queue
      using errcode = 'LW409', hint = 'Use it, or choose another name.';
  end if;

  with new_reader as (
    insert into laneway.reader (group_id, lane_id, priority)
    select v_group, l.lane_id, l.priority
      from laneway.lane l
     where l.queue_id = v_queue.queue_id
     order by l.lane_id
    returning reader_id, lane_id)
  insert into laneway.progress (reader_id, segment, seq, not_before, moved_at)
  select r.reader_id, laneway.segment_after(r.lane_id, s.seq, v_queue.logged), s.seq,
         case when v_queue.rests then laneway.rest_window_end(r.lane_id) end, clock_timestamp()
    from new_reader r
    join laneway.lane l on l.lane_id = r.lane_id
    cross join lateral (
      select case p_start
             when 'all' then l.base
             when 'new' then laneway.newest_seq(l.lane_id, v_segment)
             else laneway.seq_before(l.lane_id, v_queue.logged, p_from) end as seq
      offset 0) s;
  return v_group;
end $$;
