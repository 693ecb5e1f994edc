-- Create a lane, with a reader at its beginning for every group of its queue. Return the lane's id, also if it exists.
-- Locks: the queue's advisory lock, shared, so that a group that is being created comes before or after.
-- Errors: LW404 the queue does not exist, LW422 the partition is too long for an index.
create or replace function laneway.create_lane(p_queue_id int, p_partition text, p_priority smallint, p_stripe smallint)
returns int
language plpgsql set search_path = '' as $$
declare
  v_lane_id int;
  v_kind text;
begin
  perform pg_catalog.pg_advisory_xact_lock_shared('laneway.queue'::regclass::oid::int, p_queue_id);
  select q.kind into v_kind from laneway.queue q where q.queue_id = p_queue_id;
  if not found then
    raise exception 'queue % does not exist', p_queue_id
      using errcode = 'LW404',
            hint = 'Create the queue first.';
  end if;

  if octet_length(p_partition) <= 1300 then
    insert into laneway.lane (queue_id, partition, priority, stripe)
    values (p_queue_id, p_partition, p_priority, p_stripe)
    on conflict do nothing
    returning lane_id into v_lane_id;
  else
    -- Only the insert shows whether the compressed partition fits into an index. The exception block is a
    -- subtransaction, which is too expensive for every lane.
    begin
      insert into laneway.lane (queue_id, partition, priority, stripe)
      values (p_queue_id, p_partition, p_priority, p_stripe)
      on conflict do nothing
      returning lane_id into v_lane_id;
    exception when program_limit_exceeded then
      perform laneway.raise_long_address(
        (select q.name from laneway.queue q where q.queue_id = p_queue_id), p_partition, null);
    end;
  end if;
  if v_lane_id is null then
    select l.lane_id
      into v_lane_id
      from laneway.lane l
     where l.queue_id = p_queue_id
       and l.partition = p_partition
       and l.priority = p_priority
       and l.stripe = p_stripe;
    -- null: another transaction removed the lane in between
    return coalesce(v_lane_id, laneway.create_lane(p_queue_id, p_partition, p_priority, p_stripe));
  end if;

  with created as (
    insert into laneway.reader (group_id, lane_id, priority)
    select g.group_id, v_lane_id, p_priority
      from laneway.consumer_group g
     where g.queue_id = p_queue_id
    returning reader_id)
  insert into laneway.progress (reader_id, segment, seq, moved_at)
  select c.reader_id, laneway.current_segment(v_kind <> 'unlogged'), 0, clock_timestamp()
    from created c;
  return v_lane_id;
end $$;
