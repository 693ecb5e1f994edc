-- Puts dead letters of a group back into its queue, oldest first, attempts from zero. Answers how many.
-- Locks: the dead letters' rows. Errors: LW404 unknown group.
create or replace function laneway.replay(p_group_id int, p_limit int default null) returns int
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_queue record;
  v_moved record;        -- arrays
begin
  select q.queue_id, q.record_events into v_queue
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  with picked as (
    select d.reader_id, d.seq from laneway.dead_letter d where d.group_id = p_group_id order by d.died_at, d.seq, d.lane_id limit case when p_limit is not null then greatest(p_limit, 0) end for update skip locked),
  taken as (
    delete from laneway.dead_letter d using picked p where d.reader_id = p.reader_id and d.seq = p.seq returning d.*),
  kept as (
    insert into laneway.revision (reader_id, seq, partition, priority, created_at, lease, max_attempts, key, headers, body)
    select t.reader_id, t.seq, t.partition, t.priority, t.created_at, t.lease, t.max_attempts, t.key, t.headers, t.body from taken t on conflict do nothing),
  parked as (
    insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at, attempt, error)
    select t.reader_id, t.seq, t.segment, t.group_id, t.lane_id, t.partition, t.priority, least(t.created_at, clock_timestamp()), 0, t.reason from taken t)
  select array_agg(t.lane_id) as lanes, array_agg(t.segment) as segments, array_agg(t.seq) as seqs into v_moved from taken t;
  if v_queue.record_events then
    perform laneway.insert_event('moved', v_queue.queue_id, p_group_id, m.lane_id, m.segment, m.seq, m.seq,
                                 p_detail => '{"from": "dead", "to": "queued"}')
       from unnest(v_moved.lanes, v_moved.segments, v_moved.seqs) m (lane_id, segment, seq);
  end if;
  return coalesce(cardinality(v_moved.seqs), 0);
end $$;
