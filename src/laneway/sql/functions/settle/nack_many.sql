-- Gives messages back after a failure: each comes again after its delay (null: the queue's backoff) or, out of
-- attempts, becomes a dead letter with its reason. p_dead: true, it does so at once; false, it comes again, out of
-- attempts or not. Answers each item's outcome:
-- 'requeued', 'dead', or 'lost' (the claim does not hold it in time; nothing changed).
-- Locks: as return_messages, in order of lane and token. Errors: LW422 a delay of more than 1000 years.
create or replace function laneway.nack_many(
  p_tokens uuid[], p_lanes int[], p_seqs bigint[], p_reasons text[] default null, p_delays interval[] default null, p_dead boolean[] default null)
returns table (idx int, outcome text)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_item record;
  v_part smallint;
begin
  if laneway.exceeds_interval_limit(p_delays) then
    perform laneway.raise_long_interval(p_delays);
  end if;
  for v_item in
    select u.token, u.lane_id, u.seq, u.n, o.reader_id, p_reasons[u.n] as reason, p_delays[u.n] as delay, p_dead[u.n] as dead
      from unnest(p_tokens, p_lanes, p_seqs) with ordinality u (token, lane_id, seq, n)
      left join lateral (select c.reader_id, g.ordered from laneway.claim c join laneway.consumer_group g on g.group_id = c.group_id
                          where c.token = u.token and c.lane_id = u.lane_id limit 1) o on true
     -- In ordered groups the last first, since all behind a message goes back with it; else as they will come again.
     order by u.lane_id, u.token, case when o.ordered then - greatest(u.seq, 0) else u.seq end, u.n
  loop
    idx := v_item.n - 1;
    outcome := 'lost';
    -- By its place, as in find_claim: a claim may have thousands of parts.
    v_part := (select k.part from (select c.token, c.part, c.pending, c.until from laneway.claim c
                                    where c.reader_id = v_item.reader_id and c.first_seq between greatest(v_item.seq, 0) - 10000 and v_item.seq order by c.first_seq desc offset 0) k
                where k.token = v_item.token and k.pending @> v_item.seq and (k.until > v_now) is true limit 1);
    if v_part is not null then
      select g.outcome into outcome
        from laneway.return_messages(v_item.token, v_item.lane_id, v_part, int8multirange(int8range(v_item.seq, v_item.seq, '[]')), case v_item.dead when true then 'dead' when false then 'again' else 'retry' end,
                               v_item.delay, v_item.reason, null, 'nacked') g where g.seq = v_item.seq;
      outcome := coalesce(outcome, 'lost');
    end if;
    return next;
  end loop;
end $$;
