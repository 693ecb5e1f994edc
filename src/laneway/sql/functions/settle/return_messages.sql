-- Remove messages from one part of a claim and return them to the group.
-- p_fate: 'retry', the attempt counts, and a message out of attempts becomes a dead letter; 'again', the attempt
-- counts, and the message is delivered again in any case; 'dead', it becomes a dead letter at once; 'release', the
-- attempt does not count. p_delay null: the queue's backoff, but no delay for 'release', nor for 'expired' if the queue
-- has no expiry_backoff.
-- p_action, for the event: 'nacked', 'released', 'moved' or 'expired', which has reasons of its own. p_dead_reason: the
-- reason of a dead letter that is out of attempts; null: p_reason, or a text that says that none was given.
-- In shared groups, and for claims of parked messages, each message is parked. Without a delay it is available since it
-- was created, so that the oldest is delivered first. In ordered groups the reader moves back (rewind_reader): messages
-- behind the first one are delivered again with it, recorded as released. The parts of an ordered group's claim are
-- returned together, whichever is named, and expire only when all of them have. Not so in FIFO queues
-- (consumer_group.fifo): there the other messages stay leased.
-- Return each message's outcome: 'requeued' or 'dead'.
-- Locks: the reader's advisory lock (ordered groups), then the claim's rows. With p_action 'expired' it waits for
-- neither, and returns nothing if one is locked. Errors: none.
create or replace function laneway.return_messages(
  p_token uuid,
  p_lane_id int,
  p_part smallint,
  p_seqs int8multirange,
  p_fate text,
  p_delay interval,
  p_reason text,
  p_dead_reason text,
  p_action text)
returns table (seq bigint, outcome text)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_expired boolean := p_action = 'expired';
  v_claim laneway.claim;
  v_queue record;
  v_in_order boolean;                    -- the claim of an ordered group, but not of parked messages
  v_whole boolean;                       -- then: its messages return together
  v_returned int8multirange;             -- what leaves the claim
  v_dead int8multirange := '{}';
  v_back int8multirange;                 -- delivered again
  v_behind int8multirange := '{}';       -- delivered again though they did not fail
  v_seq bigint;
  v_attempt smallint;
  v_max_attempts smallint;
  v_highest_attempt smallint := 0;
  v_delay interval;
  v_reason text := case when v_expired then 'Timeout - requeued' else p_reason end;
  v_dead_reason text := case
    when v_expired then 'Timeout after max attempts'
    when p_fate = 'dead' then nullif(p_reason, '')
    else coalesce(nullif(p_dead_reason, ''), nullif(p_reason, ''))
  end;
  v_no_reason text;                      -- of dead letters for which none was given
begin
  -- Read the claim and the settings. A claim of a deleted group is deleted.
  select c.*
    into v_claim
    from laneway.claim c
   where c.token = p_token
     and c.lane_id = p_lane_id
     and c.part = p_part;
  if not found then
    return;
  end if;
  select g.ordered, g.fifo, q.max_attempts, q.backoff, q.backoff_factor, q.backoff_limit, q.rest_window,
         q.expiry_backoff
    into v_queue
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where g.group_id = v_claim.group_id;
  if not found then
    delete from laneway.claim
     where token = p_token
       and lane_id = p_lane_id
       and part = p_part;
    return;
  end if;
  v_in_order := v_queue.ordered and not v_claim.aside;
  v_whole := v_in_order and not v_queue.fifo;
  if v_expired and not v_queue.expiry_backoff then
    p_delay := interval '0';
  end if;

  -- Lock. Afterwards v_claim is current, and v_returned says which messages leave it.
  if v_in_order then
    if not v_expired then
      perform laneway.lock_reader(v_claim.reader_id);
    elsif not laneway.try_lock_reader(v_claim.reader_id) then
      return;
    end if;
  end if;
  v_claim := laneway.lock_claim_parts(v_claim, v_whole, v_expired, v_now);
  if v_claim.token is null then
    return;
  end if;
  if v_whole and v_expired then
    v_returned := v_claim.pending;
  else
    v_returned := v_claim.pending * p_seqs;
  end if;
  if isempty(v_returned) then
    return;
  end if;

  -- Return the messages one by one. Afterwards those of shared groups are parked, and those that died are dead letters;
  -- in ordered groups the others have their attempts counted.
  for v_seq in
    select s.seq
      from unnest(v_returned) r (span)
     cross join lateral generate_series(lower(r.span), upper(r.span) - 1) s (seq)
     order by s.seq
  loop
    v_attempt := v_claim.attempt;
    if v_in_order then
      v_attempt := 1 + least(
        coalesce((select t.attempt from laneway.retry t where t.reader_id = v_claim.reader_id and t.seq = v_seq), 0),
        32766);
    end if;
    if p_fate <> 'release' then
      v_max_attempts := (
        select coalesce(c.max_attempts, v_queue.max_attempts)
          from laneway.message_content(v_claim.reader_id, v_claim.segment, v_claim.lane_id, v_seq) c);
    end if;
    if p_fate = 'dead' or (p_fate = 'retry' and v_attempt >= v_max_attempts) then
      outcome := 'dead';
      v_dead := v_dead + int8multirange(int8range(v_seq, v_seq, '[]'));
      if v_dead_reason is null then
        v_no_reason := case
          when p_fate = 'dead' then format('Dead-lettered without a reason (attempt %s)', v_attempt)
          else format('Nacked without a reason (attempt %s of %s)', v_attempt, v_max_attempts)
        end;
      end if;
      perform laneway.insert_dead_letter(
        v_claim.group_id, v_claim.reader_id, v_claim.segment, v_claim.lane_id, v_seq, v_attempt,
        coalesce(v_dead_reason, v_no_reason), v_claim.consumer);
      if v_attempt is distinct from v_max_attempts then
        update laneway.dead_letter
           set attempt_limit = v_attempt
         where reader_id = v_claim.reader_id
           and seq = v_seq;
      end if;
      delete from laneway.retry
       where reader_id = v_claim.reader_id
         and seq = v_seq;
    elsif v_in_order then
      outcome := 'requeued';
      v_highest_attempt := greatest(v_highest_attempt, v_attempt);
      if p_fate <> 'release' then
        insert into laneway.retry (reader_id, seq, attempt, error)
        values (v_claim.reader_id, v_seq, v_attempt, v_reason)
        on conflict (reader_id, seq) do update
          set attempt = excluded.attempt, error = excluded.error;
      end if;
    else
      outcome := 'requeued';
      v_delay := laneway.return_delay(
        p_fate, p_delay, v_queue.backoff, v_queue.backoff_factor, v_queue.backoff_limit, v_attempt);
      insert into laneway.parked (
        reader_id, seq, segment, group_id, lane_id, partition, priority, available_at, attempt, error)
      select v_claim.reader_id, v_seq, v_claim.segment, v_claim.group_id, v_claim.lane_id, c.partition, c.priority,
             case when v_delay > interval '0' then v_now + v_delay else least(c.created_at, v_now) end,
             case when p_fate = 'release' then v_attempt - 1 else v_attempt end,
             coalesce(v_reason, v_claim.error)
        from laneway.message_content(v_claim.reader_id, v_claim.segment, v_claim.lane_id, v_seq) c;
    end if;
    seq := v_seq;
    return next;
  end loop;
  v_back := v_returned - v_dead;

  -- Move an ordered group's reader back. Afterwards v_returned contains the messages behind the first one too.
  if v_in_order and not isempty(v_back) then
    v_delay := laneway.return_delay(
      p_fate, p_delay, v_queue.backoff, v_queue.backoff_factor, v_queue.backoff_limit, v_highest_attempt);
    v_behind := laneway.rewind_reader(
      v_claim,
      v_back,
      v_dead,
      not v_whole,
      greatest(
        nullif(v_now + v_delay, v_now),
        case when v_queue.rest_window is not null then laneway.rest_window_end(v_claim.lane_id) end),
      v_now);
    v_returned := v_returned + v_behind;
  end if;

  -- Record what happened to which seqs, per part of the claim.
  if v_claim.queue_id is not null then
    perform laneway.insert_event(
              e.action, c.queue_id, c.group_id, c.lane_id, c.segment, lower(r.span), upper(r.span) - 1,
              c.attempt, c.token, c.consumer, c.claimed_at, e.reason,
              case when v_expired and e.action <> 'released' then json_build_object('until', c.until) end, v_now)
       from laneway.claim c
      cross join (
        values
          (p_action, v_back, v_reason),
          ('released', v_behind, 'an earlier message is delivered again'),
          ('dead', v_dead, coalesce(v_dead_reason, v_no_reason))) e (action, seqs, reason)
      cross join lateral unnest(e.seqs * c.pending) r (span)
      where c.token = p_token
        and (v_whole or (c.lane_id = p_lane_id and c.part = p_part));
  end if;

  -- Reduce the claim, or delete it.
  if v_whole then
    delete from laneway.claim
     where token = p_token
       and pending <@ v_returned;
    update laneway.claim
       set pending = pending - v_returned
     where token = p_token
       and pending && v_returned;
  elsif v_claim.pending <@ v_returned then
    delete from laneway.claim
     where token = p_token
       and lane_id = p_lane_id
       and part = p_part;
  else
    update laneway.claim
       set pending = v_claim.pending - v_returned
     where token = p_token
       and lane_id = p_lane_id
       and part = p_part;
  end if;
end $$;
