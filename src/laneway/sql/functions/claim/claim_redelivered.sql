-- Claim one parked message (redriven or moved) of an ordered group for one waiter, before the rest of its lane.
-- The caller has locked the reader and the parked row, and has made sure that the lane is not leased.
-- Result: see claim_spans. Locks: none of its own. Errors: none.
create or replace function laneway.claim_redelivered(
  p_group_id int,
  p_reader_id int,
  p_lane_id int,
  p_seq bigint,
  p_waiter int,
  p_lease interval,
  p_consumer text)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_token uuid := gen_random_uuid();
  v_parked laneway.parked;
  v_queue record;
  v_content record;
  v_attempt smallint;
  v_until timestamptz;
begin
  delete from laneway.parked
   where reader_id = p_reader_id
     and seq = p_seq
  returning * into v_parked;
  v_attempt := least(v_parked.attempt + 1, 32767);
  select q.queue_id, q.lease, q.record_events
    into v_queue
    from laneway.lane l
    join laneway.queue q on q.queue_id = l.queue_id
   where l.lane_id = p_lane_id;
  select c.created_at, c.lease, c.max_attempts, c.key, c.headers, c.body
    into v_content
    from laneway.message_content(p_reader_id, v_parked.segment, p_lane_id, p_seq) c;
  v_until := v_now + coalesce(p_lease, v_content.lease, v_queue.lease);
  insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside,
                             claimed_at, until, consumer, error, queue_id)
  values (v_token, p_reader_id, p_group_id, p_lane_id, v_parked.segment, p_seq, p_seq,
          int8multirange(int8range(p_seq, p_seq, '[]')), v_attempt, true,
          v_now, v_until, p_consumer, v_parked.error, case when v_queue.record_events then v_queue.queue_id end);
  -- The reader stays where it is; only the token changes.
  with newest as (
    select p.place, p.segment, p.seq, p.exceptions_until
      from laneway.newest_progress(p_reader_id) p),
  old_progress as (
    delete from laneway.progress
     where ctid = (select n.place from newest n))
  insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
  select p_reader_id, n.segment, n.seq, n.exceptions_until, v_token, v_now
    from newest n;
  if v_queue.record_events then
    perform laneway.insert_event('claimed', v_queue.queue_id, p_group_id, p_lane_id, v_parked.segment, p_seq, p_seq,
                                 v_attempt, v_token, p_consumer, p_at => v_now);
  end if;
  -- No row if the content is no longer kept.
  return query
    select p_waiter, v_token, v_parked.segment, p_lane_id, p_seq, v_parked.partition, v_parked.priority, v_attempt,
           v_until, null::int[], null::smallint[], array[v_content.created_at], array[v_content.lease],
           array[v_content.max_attempts], array[v_content.key], array[v_content.headers], array[v_content.body],
           case when v_parked.error is not null then array[v_parked.error] end
     where v_content.body is not null;
end $$;
