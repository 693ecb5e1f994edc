-- Takes messages out of one part of a claim and gives them back to the group.
-- p_fate: 'retry' spends the attempt and, out of attempts, makes it dead; 'again' spends it, however many there were;
-- 'dead' makes it dead at once;
-- 'release' returns it as if it had not been handed out. p_delay null: the queue's backoff.
-- Shared groups, and messages put back by hand: each message is parked; without a delay it counts as available since it came, so that the oldest goes first. Ordered groups: the lane goes back to
-- the first of them, and all that the claim held from there on comes again, in order.
-- The parts of an ordered group's claim are one hold on its lane: they go back together, whichever part is named,
-- and do not expire before the last of them has.
-- p_dead_reason: why, where it is out of attempts; null: p_reason, and without one that there was none: a dead letter always has a reason. p_action is what is put on record: 'nacked', 'released', 'moved' or 'expired', which has reasons of its own. What only
-- goes back because a message before it does is on record as released.
-- Answers each message's outcome, 'requeued' or 'dead'. Locks: the reader's advisory lock (ordered groups), then
-- the claim's rows; p_action 'expired' waits for neither and leaves what is held for the next time. Errors: none.
create or replace function laneway.return_messages(
  p_token uuid, p_lane_id int, p_part smallint, p_seqs int8multirange, p_fate text, p_delay interval, p_reason text, p_dead_reason text, p_action text)
returns table (seq bigint, outcome text)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_claim laneway.claim;
  v_queue record;
  v_in_line boolean;                     -- an ordered group's claim of its place in the log
  v_seqs int8multirange := p_seqs;
  v_parts int;
  v_hit int8multirange;
  v_place record;
  v_first bigint;
  v_seq bigint;
  v_attempt smallint;
  v_max smallint;
  v_dead bigint[] := '{}';
  v_back int8multirange;
  v_delay interval;
  v_worst smallint := 0;
  v_again int8multirange := '{}';        -- comes again though it did not fail
  v_reason text := case when p_action = 'expired' then 'Timeout - requeued' else p_reason end;
  v_dead_reason text := case when p_action = 'expired' then 'Timeout after max attempts' when p_fate = 'dead' then nullif(p_reason, '') else coalesce(nullif(p_dead_reason, ''), nullif(p_reason, '')) end;
  v_why text;                            -- of those that died, where nobody said
begin
  select c.* into v_claim from laneway.claim c where c.token = p_token and c.lane_id = p_lane_id and c.part = p_part;
  if not found then
    return;
  end if;
  select g.ordered, q.max_attempts, q.backoff, q.backoff_factor, q.backoff_limit, q.rest_window is not null as rests into v_queue
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = v_claim.group_id;
  if not found then
    delete from laneway.claim where token = p_token and lane_id = p_lane_id and part = p_part;
    return;
  end if;
  v_in_line := v_queue.ordered and not v_claim.aside;
  if v_in_line then
    if p_action <> 'expired' then
      perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_claim.reader_id);
    elsif not pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_claim.reader_id) then
      return;
    end if;
  end if;
  if v_in_line then
    loop
      if p_action <> 'expired' then
        perform from laneway.claim c where c.token = p_token order by c.part for update;
      else
        perform from laneway.claim c where c.token = p_token and (c.until <= v_now) is true order by c.part for update skip locked;
      end if;
      get diagnostics v_parts = row_count;
      exit when v_parts = (select count(*) from laneway.claim c where c.token = p_token);
      if p_action = 'expired' then
        return;
      end if;
    end loop;
    select c.* into v_claim from laneway.claim c where c.token = p_token order by c.part limit 1;
    v_claim.pending := (select range_agg(c.pending) from laneway.claim c where c.token = p_token);
    if p_action = 'expired' then
      v_seqs := v_claim.pending;
    end if;
  elsif p_action <> 'expired' then
    select c.* into v_claim from laneway.claim c where c.token = p_token and c.lane_id = p_lane_id and c.part = p_part for update;
  else
    select c.* into v_claim from laneway.claim c where c.token = p_token and c.lane_id = p_lane_id and c.part = p_part and (c.until <= v_now) is true for update skip locked;
  end if;
  if not found then
    return;
  end if;
  v_hit := v_claim.pending * v_seqs;
  if isempty(v_hit) then
    return;
  end if;

  for v_seq in select s.s from unnest(v_hit) r (range), generate_series(lower(r.range), upper(r.range) - 1) s (s) order by 1 loop
    v_attempt := v_claim.attempt;
    if v_in_line then
      v_attempt := least(coalesce((select t.attempt from laneway.retry t where t.reader_id = v_claim.reader_id and t.seq = v_seq), 0) + 1, 32767);
    end if;
    if p_fate <> 'release' then
      v_max := (select coalesce(c.max_attempts, v_queue.max_attempts) from laneway.message_content(v_claim.reader_id, v_claim.segment, v_claim.lane_id, v_seq) c);
    end if;
    if p_fate = 'dead' or (p_fate = 'retry' and v_attempt >= v_max) then
      v_dead := v_dead || v_seq;
      if v_dead_reason is null then
        v_why := case when p_fate = 'dead' then format('Dead-lettered without a reason (attempt %s)', v_attempt) else format('Nacked without a reason (attempt %s of %s)', v_attempt, v_max) end;
      end if;
      perform laneway.insert_dead_letter(v_claim.group_id, v_claim.reader_id, v_claim.segment, v_claim.lane_id, v_seq, v_attempt, coalesce(v_dead_reason, v_why), v_claim.consumer);
      delete from laneway.retry where reader_id = v_claim.reader_id and seq = v_seq;
    elsif v_in_line then
      v_worst := greatest(v_worst, v_attempt);
      if p_fate <> 'release' then
        insert into laneway.retry (reader_id, seq, attempt, error) values (v_claim.reader_id, v_seq, v_attempt, v_reason)
          on conflict (reader_id, seq) do update set attempt = excluded.attempt, error = excluded.error;
      end if;
    else
      v_delay := case when p_fate = 'release' then coalesce(p_delay, interval '0')
                      else coalesce(p_delay, laneway.backoff(v_queue.backoff, v_queue.backoff_factor, v_queue.backoff_limit, v_attempt)) end;
      insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at, attempt, error)
      select v_claim.reader_id, v_seq, v_claim.segment, v_claim.group_id, v_claim.lane_id, c.partition, c.priority,
             case when v_delay > interval '0' then v_now + v_delay else least(c.created_at, v_now) end, case when p_fate = 'release' then v_attempt - 1 else v_attempt end, coalesce(v_reason, v_claim.error)
        from laneway.message_content(v_claim.reader_id, v_claim.segment, v_claim.lane_id, v_seq) c;
    end if;
    seq := v_seq;
    outcome := case when v_seq = any (v_dead) then 'dead' else 'requeued' end;
    return next;
  end loop;

  v_back := v_hit - coalesce((select range_agg(int8range(d, d, '[]')) from unnest(v_dead) d), '{}');
  if v_in_line and not isempty(v_back) then
    -- The lane goes back to the first message that comes again; what was settled between there and where the lane
    -- stood stays settled.
    v_first := lower(v_back);
    select p.ctid, p.seq, p.exceptions_until into v_place from laneway.progress p where p.reader_id = v_claim.reader_id order by p.step desc limit 1;
    insert into laneway.gap (reader_id, first_seq, last_seq, gone)
    select v_claim.reader_id, s.s, s.s, false
      from unnest(int8multirange(int8range(v_first, greatest(v_first, v_place.seq), '[]')) - v_claim.pending
                  - coalesce((select range_agg(int8range(g.first_seq, g.last_seq, '[]')) from laneway.gap g
                               where g.reader_id = v_claim.reader_id and g.last_seq >= v_first), '{}')) r (range),
           generate_series(lower(r.range), upper(r.range) - 1) s (s);
    insert into laneway.gap (reader_id, first_seq, last_seq, gone)
    select v_claim.reader_id, d, d, false from unnest(v_dead) d where d > v_first on conflict do nothing;
    v_delay := case when p_fate = 'release' then coalesce(p_delay, interval '0')
                    else coalesce(p_delay, laneway.backoff(v_queue.backoff, v_queue.backoff_factor, v_queue.backoff_limit, v_worst)) end;
    v_again := v_claim.pending * int8multirange(int8range(v_first, null)) - v_hit;
    v_hit := v_hit + v_again;
    delete from laneway.gap g using unnest(v_hit) r (range)
     where g.reader_id = v_claim.reader_id and g.first_seq >= lower(r.range) and g.first_seq < upper(r.range) and not g.gone and g.first_seq <> all (v_dead);
    insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
    values (v_claim.reader_id, v_claim.segment, v_first - 1, greatest(v_place.exceptions_until, v_place.seq),
            case when not isempty(v_claim.pending - v_hit) then p_token end, greatest(nullif(v_now + v_delay, v_now), case when v_queue.rests then laneway.rest_window_end(v_claim.lane_id) end), v_now);
    delete from laneway.progress where ctid = v_place.ctid;
    update laneway.reader set ready = true where reader_id = v_claim.reader_id and ready is distinct from true; -- not so that a partial index fits
  end if;

  if v_claim.queue_id is not null then
    perform laneway.insert_event(
              e.action, c.queue_id, c.group_id, c.lane_id, c.segment, lower(r.range), upper(r.range) - 1,
              c.attempt, c.token, c.consumer, c.claimed_at, e.reason,
              case when p_action = 'expired' and e.action <> 'released' then json_build_object('until', c.until) end, v_now)
       from laneway.claim c
       cross join (values (p_action, v_back, v_reason), ('released', v_again, 'a message before it comes again'),
                          ('dead', (select range_agg(int8range(d, d, '[]')) from unnest(v_dead) d), coalesce(v_dead_reason, v_why))) e (action, seqs, reason)
       cross join lateral unnest(e.seqs * c.pending) r (range)
      where c.token = p_token and (v_in_line or (c.lane_id = p_lane_id and c.part = p_part));
  end if;

  if v_in_line then
    delete from laneway.claim where token = p_token and pending <@ v_hit;
    update laneway.claim set pending = pending - v_hit where token = p_token and pending && v_hit;
  elsif v_claim.pending <@ v_hit then
    delete from laneway.claim where token = p_token and lane_id = p_lane_id and part = p_part;
  else
    update laneway.claim set pending = v_claim.pending - v_hit where token = p_token and lane_id = p_lane_id and part = p_part;
  end if;
end $$;
