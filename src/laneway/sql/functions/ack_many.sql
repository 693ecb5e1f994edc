-- Settles messages: the runs p_first[i] .. p_last[i] of p_lanes[i], as far as the claims p_tokens[i] still hold
-- them in time. Answers only what was not settled, by run (0-based); for that nothing changed.
-- Locks: the claims' rows. Errors: LW422 arrays that do not fit.
create or replace function laneway.ack_many(p_tokens uuid[], p_lanes int[], p_first bigint[], p_last bigint[])
returns table (idx int, first_seq bigint, last_seq bigint)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_settled int[];    -- of the runs, which
  v_rest int[];
  v_claim laneway.claim;
begin
  if cardinality(p_tokens) = 1 then
    delete from laneway.claim c where c.token = p_tokens[1] and c.lane_id = p_lanes[1] and (c.until > v_now) is true
       and c.pending = int8multirange(int8range(p_first[1], p_last[1], '[]')) returning * into v_claim;
    if not found then
      return query select * from laneway.ack_parts(p_tokens, p_lanes, p_first, p_last);
      return;
    end if;
    insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer, since)
    select case when v_claim.aside then laneway.current_segment(true) else v_claim.segment - v_claim.segment % 2 end,
           v_now, 'acked', q.queue_id, v_claim.group_id, v_claim.lane_id, v_claim.segment, p_first[1], p_last[1], v_claim.attempt, v_claim.token, v_claim.consumer, v_claim.claimed_at
      from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = v_claim.group_id and q.record_events;
    return;
  end if;

  -- Most claims are settled whole, one run each; what is not, goes the longer way below. Found by their key one by
  -- one and deleted by address, whatever the statistics say: a plan for few rows would walk over all that were deleted.
  with settled as (
    delete from laneway.claim c
     using (select u.*, k.place
              from (select u.* from unnest(p_tokens, p_lanes, p_first, p_last) with ordinality u (token, lane_id, first_seq, last_seq, i)
                     order by u.token, u.first_seq offset 0) u
              cross join lateral (select k.ctid as place from laneway.claim k
                                   where k.token = u.token and k.lane_id = u.lane_id and k.pending = int8multirange(int8range(u.first_seq, u.last_seq, '[]')) offset 0) k
             offset 0) u
     where c.ctid = u.place and (c.until > v_now) is true and c.pending = int8multirange(int8range(u.first_seq, u.last_seq, '[]'))
    returning u.i::int, c.group_id, c.lane_id, c.segment, u.first_seq, u.last_seq, c.attempt, c.aside, c.token, c.consumer, c.claimed_at),
  by_lane as (
    select c.group_id, c.lane_id, c.segment, c.attempt, c.aside, count(*) as n, min(c.first_seq) as first_seq, max(c.last_seq) as last_seq,
           array_agg(c.first_seq) as firsts, array_agg(c.last_seq) as lasts, array_agg(c.token) as tokens, array_agg(c.consumer) as consumers,
           array_agg(c.claimed_at) as since
      from settled c group by c.group_id, c.lane_id, c.segment, c.attempt, c.aside),
  recorded as (
    insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
                               token, consumer, since, part_first, part_last, part_token, part_consumer, part_since)
    select case when c.aside then laneway.current_segment(true) else c.segment - c.segment % 2 end, v_now, 'acked', q.queue_id, c.group_id, c.lane_id, c.segment,
           c.first_seq, c.last_seq, c.attempt, case when c.n = 1 then c.tokens[1] end, case when c.n = 1 then c.consumers[1] end, case when c.n = 1 then c.since[1] end,
           case when c.n > 1 then c.firsts end, case when c.n > 1 then c.lasts end, case when c.n > 1 then c.tokens end, case when c.n > 1 then c.consumers end,
           case when c.n > 1 then c.since end
      from by_lane c
      cross join lateral (select o.queue_id from laneway.consumer_group g join laneway.queue o on o.queue_id = g.queue_id
                           where g.group_id = c.group_id and o.record_events offset 0) q)
  select array_agg(c.i) into v_settled from settled c;
  if coalesce(cardinality(v_settled), 0) < cardinality(p_tokens) then
    -- A run that was named twice is settled once.
    v_rest := array(
      select u.i from unnest(p_tokens, p_lanes, p_first, p_last) with ordinality u (token, lane_id, first_seq, last_seq, i)
       where ((u.token, u.lane_id, u.first_seq, u.last_seq) in (select p_tokens[d.i], p_lanes[d.i], p_first[d.i], p_last[d.i] from unnest(v_settled) d (i))) is not true order by u.i);
    return query
      select v_rest[p.idx + 1] - 1, p.first_seq, p.last_seq
        from laneway.ack_parts(array(select p_tokens[r.i] from unnest(v_rest) r (i)), array(select p_lanes[r.i] from unnest(v_rest) r (i)),
                               array(select p_first[r.i] from unnest(v_rest) r (i)), array(select p_last[r.i] from unnest(v_rest) r (i))) p;
  end if;
end $$;
