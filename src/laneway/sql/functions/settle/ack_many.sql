-- Settles messages: the runs p_first[i] .. p_last[i] of p_lanes[i], as far as the claims p_tokens[i] still hold
-- them in time. Answers only what was not settled, by run (0-based); for that nothing changed.
-- p_shared: false says that no two of several runs are of one lane and token, which spares looking for such.
-- Locks: the claims' rows, in order of lane and token. Errors: LW422 arrays that do not fit, or a run that cannot be.
create or replace function laneway.ack_many(p_tokens uuid[], p_lanes int[], p_first bigint[], p_last bigint[], p_shared boolean default true)
returns table (idx int, first_seq bigint, last_seq bigint)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_count int := coalesce(cardinality(p_tokens), 0);
  v_one_token boolean;
  v_settled int[];    -- of the runs, which
  v_rest int[];
  v_claim record;
  v_seqs int8multirange;
begin
  if v_count = 0 or cardinality(p_lanes) is distinct from v_count or cardinality(p_first) is distinct from v_count or cardinality(p_last) is distinct from v_count then
    return query select * from laneway.ack_parts(p_tokens, p_lanes, p_first, p_last); -- which says what is wrong with them
    return;
  end if;
  v_one_token := v_count = 1 or p_tokens = pg_catalog.array_fill(p_tokens[1], array[v_count]);
  if v_one_token and (v_count = 1 or p_lanes = pg_catalog.array_fill(p_lanes[1], array[v_count])) then
    -- Several runs are those of consumers who hold what they got by one claim, each its own.
    if v_count = 1 then
      v_seqs := int8multirange(laneway.span_between(p_first[1], p_last[1]));
    else
      select case when a.fit and a.n = (select sum(upper(r.range) - lower(r.range)) from unnest(a.seqs) r (range)) then a.seqs end into v_seqs
        from (select range_agg(u.run) as seqs, sum(upper(u.run) - lower(u.run)) as n, count(u.run) = v_count as fit
                from (select laneway.span_between(u.first_seq, u.last_seq) as run from unnest(p_first, p_last) u (first_seq, last_seq)) u) a;
    end if;
    delete from laneway.claim c where c.token = p_tokens[1] and c.lane_id = p_lanes[1] and (c.until > v_now) is true and c.pending = v_seqs
      returning c.queue_id, c.group_id, c.segment, c.attempt, c.aside, c.consumer, c.claimed_at into v_claim;
    if not found then
      update laneway.claim c set pending = c.pending - v_seqs
       where c.token = p_tokens[1] and c.lane_id = p_lanes[1] and (c.until > v_now) is true and c.pending @> v_seqs and c.pending <> v_seqs
      returning c.queue_id, c.group_id, c.segment, c.attempt, c.aside, c.consumer, c.claimed_at into v_claim;
      if not found then
        return query select * from laneway.ack_parts(p_tokens, p_lanes, p_first, p_last);
        return;
      end if;
    end if;
    if v_claim.queue_id is not null then
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer, since, part_first, part_last)
      values (case when v_claim.aside then laneway.current_segment(true) else v_claim.segment - v_claim.segment % 2 end,
              v_now, 'acked', v_claim.queue_id, v_claim.group_id, p_lanes[1], v_claim.segment, lower(v_seqs), upper(v_seqs) - 1, v_claim.attempt, p_tokens[1], v_claim.consumer, v_claim.claimed_at,
              case when v_count > 1 then p_first end, case when v_count > 1 then p_last end);
    end if;
    return;
  end if;
  if p_shared then
    v_settled := laneway.ack_shares(p_tokens, p_lanes, p_first, p_last);
  elsif v_one_token then
    -- What one consumer got of several lanes at once.
    with settled as (
      delete from laneway.claim c
       where c.token = p_tokens[1] and (c.until > v_now) is true
         and c.pending = int8multirange(laneway.span_between(p_first[array_position(p_lanes, c.lane_id)], p_last[array_position(p_lanes, c.lane_id)]))
      returning array_position(p_lanes, c.lane_id) as i, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside, c.consumer, c.claimed_at),
    recorded as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer, since)
      select case when c.aside then laneway.current_segment(true) else c.segment - c.segment % 2 end, v_now, 'acked', c.queue_id, c.group_id, c.lane_id, c.segment,
             p_first[c.i], p_last[c.i], c.attempt, p_tokens[1], c.consumer, c.claimed_at
        from settled c where c.queue_id is not null)
    select array_agg(c.i) into v_settled from settled c;
  else
    -- Most claims are settled whole, one run each; what is not, goes the longer way below. Found by their key one by
    -- one and deleted by address, whatever the statistics say: a plan for few rows would walk over all that were deleted.
    with settled as (
      delete from laneway.claim c
       using (select u.*, k.place
                from (select u.* from unnest(p_tokens, p_lanes, p_first, p_last) with ordinality u (token, lane_id, first_seq, last_seq, i)
                       order by u.lane_id, u.token offset 0) u
                cross join lateral (select k.ctid as place from laneway.claim k
                                     where k.token = u.token and k.lane_id = u.lane_id and k.pending = int8multirange(laneway.span_between(u.first_seq, u.last_seq)) offset 0) k
               offset 0) u
       where c.ctid = u.place and (c.until > v_now) is true and c.pending = int8multirange(laneway.span_between(u.first_seq, u.last_seq))
      returning u.i::int, c.queue_id, c.group_id, c.lane_id, c.segment, u.first_seq, u.last_seq, c.attempt, c.aside, c.token, c.consumer, c.claimed_at),
    by_lane as (
      select c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside, count(*) as n, min(c.first_seq) as first_seq, max(c.last_seq) as last_seq,
             array_agg(c.first_seq) as firsts, array_agg(c.last_seq) as lasts, array_agg(c.token) as tokens, array_agg(c.consumer) as consumers,
             array_agg(c.claimed_at) as since
        from settled c where c.queue_id is not null group by c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside),
    recorded as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
                                 token, consumer, since, part_first, part_last, part_token, part_consumer, part_since)
      select case when c.aside then laneway.current_segment(true) else c.segment - c.segment % 2 end, v_now, 'acked', c.queue_id, c.group_id, c.lane_id, c.segment,
             c.first_seq, c.last_seq, c.attempt, case when c.n = 1 then c.tokens[1] end, case when c.n = 1 then c.consumers[1] end, case when c.n = 1 then c.since[1] end,
             case when c.n > 1 then c.firsts end, case when c.n > 1 then c.lasts end, case when c.n > 1 then c.tokens end, case when c.n > 1 then c.consumers end,
             case when c.n > 1 then c.since end
        from by_lane c)
    select array_agg(c.i) into v_settled from settled c;
  end if;
  if coalesce(cardinality(v_settled), 0) < v_count then
    v_rest := array(select r.i from generate_subscripts(p_tokens, 1) r (i) where (r.i = any (v_settled)) is not true order by r.i);
    return query
      select v_rest[p.idx + 1] - 1, p.first_seq, p.last_seq
        from laneway.ack_parts(array(select p_tokens[r.i] from unnest(v_rest) r (i)), array(select p_lanes[r.i] from unnest(v_rest) r (i)),
                               array(select p_first[r.i] from unnest(v_rest) r (i)), array(select p_last[r.i] from unnest(v_rest) r (i))) p;
  end if;
end $$;
