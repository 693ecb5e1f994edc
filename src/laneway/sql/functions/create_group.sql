-- Makes a group that reads a whole queue: from all that is kept, from now ('new'), or from a moment ('time').
-- p_ordered null: as the queue is. Answers its id.
-- Locks: the queue's advisory lock, exclusive, so that no lane is missed. Errors: LW404 unknown queue, LW409 the
-- name is taken, LW422 an empty name, an ordered group on a queue that is not, or a bad start.
create or replace function laneway.create_group(p_queue text, p_name text, p_ordered boolean default null, p_start text default 'all', p_from timestamptz default null) returns int
language plpgsql set search_path = '' as $$
declare
  v_queue record;
  v_group int;
  v_lane record;
  v_reader int;
begin
  select q.queue_id, q.ordered, q.kind <> 'unlogged' as logged into v_queue from laneway.queue q where q.name = p_queue;
  if not found then
    raise exception 'queue "%" does not exist', p_queue using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if p_ordered and not v_queue.ordered then
    raise exception 'queue "%" is not ordered, so its groups cannot be', p_queue using errcode = 'LW422', hint = 'Make the queue with ordered = true.';
  end if;
  if p_name is null or p_name = '' then
    raise exception 'a group''s name must not be empty' using errcode = 'LW422', hint = 'Choose a name.';
  end if;
  if p_start is null or p_start not in ('all', 'new', 'time') or (p_start = 'time') <> (p_from is not null) then
    raise exception 'group "%" cannot start at "%"', p_name, p_start using errcode = 'LW422', hint = 'Say all, new, or time with a moment.';
  end if;
  perform pg_catalog.pg_advisory_xact_lock('laneway.queue'::regclass::oid::int, v_queue.queue_id);
  insert into laneway.consumer_group (queue_id, name, ordered) values (v_queue.queue_id, p_name, coalesce(p_ordered, v_queue.ordered))
    on conflict do nothing returning group_id into v_group;
  if not found then
    raise exception 'group "%" of queue "%" already exists', p_name, p_queue using errcode = 'LW409', hint = 'Use it, or choose another name.';
  end if;
  for v_lane in select l.lane_id, l.priority, l.base from laneway.lane l where l.queue_id = v_queue.queue_id order by l.lane_id loop
    insert into laneway.reader (group_id, lane_id, priority) values (v_group, v_lane.lane_id, v_lane.priority) returning reader_id into v_reader;
    perform laneway.place_reader(v_reader, v_lane.lane_id, case p_start
      when 'all' then v_lane.base
      when 'new' then laneway.newest_seq(v_lane.lane_id, laneway.current_segment(v_queue.logged))
      else laneway.seq_before(v_lane.lane_id, v_queue.logged, p_from) end, v_queue.logged);
  end loop;
  return v_group;
end $$;
