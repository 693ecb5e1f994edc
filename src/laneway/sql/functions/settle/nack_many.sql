-- Nack messages: each is delivered again after its delay (null: the queue's backoff) or, if it is out of attempts,
-- becomes a dead letter with its reason. The arrays have an element per message.
-- p_dead: true, it becomes a dead letter at once; false, it is delivered again even if it is out of attempts.
-- Return each message's outcome, by index from 0: 'requeued', 'dead', or 'lost' (the lease has ended; nothing changed).
-- Locks: those of return_messages, in order of lane and token. Errors: LW422 a delay is longer than 1000 years.
create or replace function laneway.nack_many(
  p_tokens uuid[],
  p_lanes int[],
  p_seqs bigint[],
  p_reasons text[] default null,
  p_delays interval[] default null,
  p_dead boolean[] default null)
returns table (idx int, outcome text)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_message record;
  v_part smallint;
begin
  if laneway.exceeds_interval_limit(p_delays) then
    perform laneway.raise_long_interval(p_delays);
  end if;
  for v_message in
    select u.token, u.lane_id, u.seq, u.n, o.reader_id,
           p_reasons[u.n] as reason,
           p_delays[u.n] as delay,
           case p_dead[u.n] when true then 'dead' when false then 'again' else 'retry' end as fate
      from unnest(p_tokens, p_lanes, p_seqs) with ordinality u (token, lane_id, seq, n)
      left join lateral (
        select c.reader_id, g.ordered
          from laneway.claim c
          join laneway.consumer_group g on g.group_id = c.group_id
         where c.token = u.token
           and c.lane_id = u.lane_id
         limit 1) o on true
     -- ordered groups: the last first, because a message returns those behind it too
     order by u.lane_id, u.token, case when o.ordered then - greatest(u.seq, 0) else u.seq end, u.n
  loop
    idx := v_message.n - 1;
    outcome := 'lost';
    -- Search by reader and seq, as find_claim does: a claim may have thousands of parts.
    v_part := (
      select k.part
        from (select c.token, c.part, c.pending, c.until
                from laneway.claim c
               where c.reader_id = v_message.reader_id
                 and c.first_seq between greatest(v_message.seq, 0) - 10000 and v_message.seq
               order by c.first_seq desc
              offset 0) k
       where k.token = v_message.token
         and k.pending @> v_message.seq
         and (k.until > v_now) is true
       limit 1);
    if v_part is not null then
      select r.outcome
        into outcome
        from laneway.return_messages(
               v_message.token, v_message.lane_id, v_part,
               int8multirange(int8range(v_message.seq, v_message.seq, '[]')),
               v_message.fate, v_message.delay, v_message.reason, null, 'nacked') r
       where r.seq = v_message.seq;
      outcome := coalesce(outcome, 'lost');
    end if;
    return next;
  end loop;
end $$;
