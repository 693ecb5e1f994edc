-- Hands one message that was put back by hand (replayed, moved) in an ordered group to one waiter, before the
-- lane goes on. The caller holds the reader's lock and the parked row, and knows that nobody holds the lane.
-- Locks: none of its own. Errors: none.
create or replace function laneway.claim_redelivered(
  p_group_id int, p_reader_id int, p_lane_id int, p_seq bigint, p_waiter int, p_lease interval, p_consumer text)
returns table (waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_token uuid := gen_random_uuid();
  v_parked laneway.parked;
  v_queue record;
  v_lease interval;
  v_attempt smallint;
begin
  delete from laneway.parked where reader_id = p_reader_id and seq = p_seq returning * into v_parked;
  v_attempt := least(v_parked.attempt + 1, 32767);
  select q.queue_id, q.lease, q.record_events into v_queue
    from laneway.lane l join laneway.queue q on q.queue_id = l.queue_id where l.lane_id = p_lane_id;
  v_lease := coalesce(p_lease, (select c.lease from laneway.message_content(p_reader_id, v_parked.segment, p_lane_id, p_seq) c), v_queue.lease);
  insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer, error, queue_id)
  values (v_token, p_reader_id, p_group_id, p_lane_id, v_parked.segment, p_seq, p_seq, int8multirange(int8range(p_seq, p_seq, '[]')),
          v_attempt, true, v_now, v_now + v_lease, p_consumer, v_parked.error, case when v_queue.record_events then v_queue.queue_id end);
  with old as (
    select p.ctid, p.segment, p.seq, p.exceptions_until from laneway.progress p where p.reader_id = p_reader_id order by p.step desc limit 1),
  left_behind as (
    delete from laneway.progress where ctid = (select o.ctid from old o))
  insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
  select p_reader_id, o.segment, o.seq, o.exceptions_until, v_token, v_now from old o;
  if v_queue.record_events then
    perform laneway.insert_event('claimed', v_queue.queue_id, p_group_id, p_lane_id, v_parked.segment, p_seq, p_seq, v_attempt, v_token, p_consumer, p_at => v_now);
  end if;
  return query
    select p_waiter, v_token, v_parked.segment, p_lane_id, p_seq, v_parked.partition, v_parked.priority, v_attempt,
           v_now + v_lease, null::int[], null::smallint[], array[c.created_at], array[c.lease], array[c.max_attempts], array[c.key], array[c.headers], array[c.body], case when v_parked.error is not null then array[v_parked.error] end
      from laneway.message_content(p_reader_id, v_parked.segment, p_lane_id, p_seq) c;
end $$;
