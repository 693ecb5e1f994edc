-- Move dead letters of a group back to its queue, oldest first, with no attempts counted. Return their number.
-- p_limit: dead letters at most; null: all.
-- Locks: the dead letters' rows (skipping locked ones). Errors: LW404 the group does not exist.
create or replace function laneway.requeue_dead_letters(p_group_id int, p_limit int default null) returns int
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_queue record;
  v_moved record;        -- arrays, one element per message
begin
  select q.queue_id, q.record_events
    into v_queue
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id
      using errcode = 'LW404',
            hint = 'It or its queue was deleted; look it up again.';
  end if;

  with picked as (
    select d.reader_id, d.seq
      from laneway.dead_letter d
     where d.group_id = p_group_id
     order by d.died_at, d.seq, d.lane_id
     limit case when p_limit is not null then greatest(p_limit, 0) end
       for update skip locked),
  removed as (
    delete from laneway.dead_letter d
     using picked p
     where d.reader_id = p.reader_id
       and d.seq = p.seq
    returning d.*),
  kept as (
    -- the content, which may no longer be in the log
    insert into laneway.revision (
      reader_id, seq, partition, priority, created_at, lease, max_attempts, key, headers, body)
    select r.reader_id, r.seq, r.partition, r.priority, r.created_at, r.lease, r.max_attempts, r.key, r.headers, r.body
      from removed r
    on conflict do nothing),
  parked as (
    insert into laneway.parked (
      reader_id, seq, segment, group_id, lane_id, partition, priority, available_at, attempt, error)
    select r.reader_id, r.seq, r.segment, r.group_id, r.lane_id, r.partition, r.priority,
           least(r.created_at, clock_timestamp()), 0, r.reason
      from removed r)
  select array_agg(r.lane_id) as lanes,
         array_agg(r.segment) as segments,
         array_agg(r.seq) as seqs
    into v_moved
    from removed r;
  if v_queue.record_events then
    perform laneway.insert_event(
              'moved', v_queue.queue_id, p_group_id, m.lane_id, m.segment, m.seq, m.seq,
              p_detail => '{"from": "dead", "to": "queued"}')
       from unnest(v_moved.lanes, v_moved.segments, v_moved.seqs) m (lane_id, segment, seq);
  end if;
  return coalesce(cardinality(v_moved.seqs), 0);
end $$;
