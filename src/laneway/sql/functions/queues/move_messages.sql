-- Move messages of a group from one state to another by hand. Messages that are not in state p_from are left as they
-- are.
-- States: queued, processing, acknowledged, dead and archived; p_to may also be 'deleted'.
-- To queued: the message is delivered before unread messages (in a shared group, of its priority; in an ordered group,
-- of its lane). Its attempts stay if it was queued or processing, else they start from zero.
-- To processing: it is leased for p_lease (null: its own lease, else the queue's) to p_consumer with a new token.
-- To dead without p_reason: with its last error as the reason. To archived: with its attempts and its last error.
-- p_segments, p_lanes, p_seqs are parallel arrays. Return a row for each message that moved: its index in them, from 0,
-- and its new token, if any. Workers that handled messages from processing are told with their next heartbeat.
-- Locks: the readers' advisory locks, in order of lane; from processing, those of lock_claims before, and the workers'
-- rows after, in order of id.
-- Errors: LW422 an unknown state, or a lease of over 1000 years.
create or replace function laneway.move_messages(
  p_group_id int, p_segments int[], p_lanes int[], p_seqs bigint[], p_from text, p_to text,
  p_reason text default null, p_consumer text default null, p_lease interval default null)
returns table (idx int, token uuid)
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_queue record;
  v_item record;
  v_reader int;
  v_claim laneway.claim;
  v_parked laneway.parked;
  v_attempt smallint;
  v_error text;
  v_seqs int8multirange; -- the message alone
  v_consumers text[] := '{}'; -- whose leases ended
begin
  if p_from is null or p_to is null
     or p_from not in ('queued', 'processing', 'acknowledged', 'dead', 'archived')
     or p_to not in ('queued', 'processing', 'acknowledged', 'dead', 'archived', 'deleted') then
    raise exception 'cannot move messages from "%" to "%"', p_from, p_to
      using errcode = 'LW422',
            hint = 'States are queued, processing, acknowledged, dead and archived; to may be deleted.';
  end if;
  if laneway.exceeds_interval_limit(array[p_lease]) then
    perform laneway.raise_long_interval(array[p_lease]);
  end if;
  select q.queue_id, q.lease, q.record_events, g.ordered into v_queue
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where g.group_id = p_group_id;
  if p_from = 'processing' then
    perform laneway.lock_claims(p_group_id, p_lanes, p_seqs);
  end if;

  for v_item in
    select u.segment, u.lane_id, u.seq, u.n
      from unnest(p_segments, p_lanes, p_seqs) with ordinality u (segment, lane_id, seq, n)
     order by u.lane_id, u.seq, u.n
  loop
    -- Lock the reader and check the state.
    select r.reader_id into v_reader
      from laneway.reader r
     where r.group_id = p_group_id
       and r.lane_id = v_item.lane_id;
    continue when not found;
    perform laneway.lock_reader(v_reader);
    continue when laneway.message_state(v_reader, v_item.segment, v_item.lane_id, v_item.seq) is distinct from p_from;
    v_seqs := int8multirange(int8range(v_item.seq, v_item.seq, '[]'));
    v_attempt := 0;
    v_error := null;
    v_claim := null;

    -- Remove it from its old state.
    if p_from = 'queued' then
      delete from laneway.parked
       where reader_id = v_reader
         and seq = v_item.seq
      returning * into v_parked;
      if found then
        v_attempt := v_parked.attempt;
        v_error := v_parked.error;
      else
        -- Not parked: either still ahead in the log, or claimed just now.
        continue when laneway.message_state(v_reader, v_item.segment, v_item.lane_id, v_item.seq)
                      is distinct from 'queued';
        v_attempt := coalesce(
          (select t.attempt from laneway.retry t where t.reader_id = v_reader and t.seq = v_item.seq), 0);
        perform laneway.skip_message(v_reader, v_item.seq);
      end if;
    elsif p_from = 'processing' then
      v_claim := laneway.find_claim(v_reader, v_item.seq);
      select c.* into v_claim
        from laneway.claim c
       where c.token = v_claim.token
         and c.lane_id = v_claim.lane_id
         and c.part = v_claim.part
         and c.pending @> v_item.seq
         for update;
      continue when not found;
      v_consumers := v_consumers || v_claim.consumer;
      v_attempt := v_claim.attempt;
      if v_queue.ordered and not v_claim.aside then
        v_attempt := least(coalesce(
          (select t.attempt from laneway.retry t where t.reader_id = v_reader and t.seq = v_item.seq), 0) + 1, 32767);
      end if;
      if p_to = 'queued' then
        -- A release does all of it.
        perform laneway.return_messages(v_claim.token, v_claim.lane_id, v_claim.part, v_seqs, 'release', interval '0',
                                        p_reason, null, 'moved');
        if not v_queue.ordered or v_claim.aside then
          update laneway.parked
             set attempt = v_attempt
           where reader_id = v_reader
             and seq = v_item.seq;
        end if;
        idx := v_item.n - 1;
        token := null;
        return next;
        continue;
      end if;
      if v_claim.pending = v_seqs then
        delete from laneway.claim
         where token = v_claim.token
           and lane_id = v_claim.lane_id
           and part = v_claim.part;
      else
        update laneway.claim
           set pending = pending - v_seqs
         where token = v_claim.token
           and lane_id = v_claim.lane_id
           and part = v_claim.part;
      end if;
    elsif p_from = 'dead' then
      select d.reason, case when p_to = 'archived' then d.attempt else 0 end into v_error, v_attempt
        from laneway.dead_letter d
       where d.reader_id = v_reader
         and d.seq = v_item.seq
         for update;
      continue when not found; -- redriven just now
    end if;
    if p_from in ('dead', 'archived') then
      -- The copy becomes the message's revision, because the log may not have the message any more.
      with dead as (
        delete from laneway.dead_letter
         where p_from = 'dead'
           and reader_id = v_reader
           and seq = v_item.seq
        returning reader_id, seq, partition, priority, created_at, lease, max_attempts, key, headers, body),
      archived as (
        delete from laneway.archive
         where p_from = 'archived'
           and reader_id = v_reader
           and seq = v_item.seq
        returning reader_id, seq, partition, priority, created_at, lease, max_attempts, key, headers, body)
      insert into laneway.revision (reader_id, seq, partition, priority, created_at, lease, max_attempts, key, headers,
                                    body)
      select d.* from dead d
      union all
      select a.* from archived a
          on conflict do nothing;
    end if;

    -- Put it into its new state. There is nothing to do for acknowledged.
    token := null;
    if p_to = 'queued' then
      insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at,
                                  attempt, error)
      select v_reader, v_item.seq, v_item.segment, p_group_id, v_item.lane_id, c.partition, c.priority,
             least(c.created_at, v_now), v_attempt, coalesce(p_reason, v_error)
        from laneway.message_content(v_reader, v_item.segment, v_item.lane_id, v_item.seq) c;
    elsif p_to = 'processing' then
      token := gen_random_uuid();
      insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt,
                                 aside, claimed_at, until, consumer, error, queue_id)
      select token, v_reader, p_group_id, v_item.lane_id, v_item.segment, v_item.seq, v_item.seq, v_seqs,
             least(v_attempt + 1, 32767), true, v_now, v_now + coalesce(p_lease, c.lease, v_queue.lease), p_consumer,
             v_error, case when v_queue.record_events then v_queue.queue_id end
        from laneway.message_content(v_reader, v_item.segment, v_item.lane_id, v_item.seq) c;
    elsif p_to = 'dead' then
      perform laneway.insert_dead_letter(
        p_group_id, v_reader, v_item.segment, v_item.lane_id, v_item.seq, v_attempt,
        coalesce(nullif(p_reason, ''), v_error, v_claim.error, 'Moved to the dead letters without a reason'),
        p_consumer);
    elsif p_to = 'archived' then
      insert into laneway.archive (reader_id, seq, segment, group_id, lane_id, partition, priority, created_at,
                                   archived_at, attempt, reason, consumer, lease, max_attempts, key, headers, body)
      select v_reader, v_item.seq, v_item.segment, p_group_id, v_item.lane_id, c.partition, c.priority, c.created_at,
             v_now, v_attempt, coalesce(p_reason, v_error), p_consumer, c.lease, c.max_attempts, c.key, c.headers,
             c.body
        from laneway.message_content(v_reader, v_item.segment, v_item.lane_id, v_item.seq) c;
      delete from laneway.revision where reader_id = v_reader and seq = v_item.seq;
    elsif p_to = 'deleted' then
      delete from laneway.revision where reader_id = v_reader and seq = v_item.seq;
      perform laneway.note_seqs_gone(v_reader, v_seqs);
    end if;

    if v_queue.record_events then
      perform laneway.insert_event(
        case when p_to = 'deleted' then 'deleted' else 'moved' end, v_queue.queue_id, p_group_id,
        v_item.lane_id, v_item.segment, v_item.seq, v_item.seq, v_attempt,
        token, coalesce(p_consumer, v_claim.consumer), p_since => v_claim.claimed_at, p_reason => p_reason,
        p_detail => json_build_object('from', p_from, 'to', p_to, 'of', cardinality(p_seqs)), p_at => v_now);
    end if;
    idx := v_item.n - 1;
    return next;
  end loop;
  if p_from = 'processing' then
    perform laneway.note_leases_ended(v_consumers);
  end if;
end $$;
