-- Puts dead letters of a group back into its queue, oldest first, attempts from zero. Answers how many.
-- Locks: the dead letters' rows. Errors: LW404 unknown group.
create or replace function laneway.replay(p_group_id int, p_limit int default null) returns int
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_count int;
begin
  perform from laneway.consumer_group g where g.group_id = p_group_id;
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
    select t.reader_id, t.seq, t.segment, t.group_id, t.lane_id, t.partition, t.priority, least(t.created_at, clock_timestamp()), 0, t.reason from taken t),
  recorded as (
    insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, detail)
    select laneway.current_segment(true), clock_timestamp(), 'moved', q.queue_id, t.group_id, t.lane_id, t.segment, t.seq, t.seq, '{"from": "dead", "to": "queued"}'
      from taken t join laneway.consumer_group g on g.group_id = t.group_id join laneway.queue q on q.queue_id = g.queue_id and q.record_events)
  select count(*) into v_count from taken;
  return v_count;
end $$;
