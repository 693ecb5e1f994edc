-- Ack messages: the spans p_first[i] .. p_last[i] of p_lanes[i], as far as they are in the claims p_tokens[i] and the
-- leases have not ended. Return what was not acked, by span (index from 0); for that nothing changed.
-- p_shared: whether two spans may have the same lane and token. If the caller knows that they do not, false costs less.
-- Where all spans have one lane and token it makes no difference.
-- Locks: the claims' rows, in order of lane and token. Errors: LW422 the arrays differ in length, or a span is invalid.
create or replace function laneway.ack_many(
  p_tokens uuid[],
  p_lanes int[],
  p_first bigint[],
  p_last bigint[],
  p_shared boolean default true)
returns table (idx int, first_seq bigint, last_seq bigint)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_count int := coalesce(cardinality(p_tokens), 0);
  v_one_token boolean;
  v_claim record;
  v_seqs int8multirange;
  v_acked int[];          -- positions of the spans that were acked …
  v_rest int[];           -- … and of the others
begin
  if v_count = 0
     or cardinality(p_lanes) is distinct from v_count
     or cardinality(p_first) is distinct from v_count
     or cardinality(p_last) is distinct from v_count then
    -- ack_parts raises the error.
    return query select * from laneway.ack_parts(p_tokens, p_lanes, p_first, p_last);
    return;
  end if;

  -- All spans are in one part of one claim: delete it, or reduce it.
  v_one_token := v_count = 1 or p_tokens = pg_catalog.array_fill(p_tokens[1], array[v_count]);
  if v_one_token and (v_count = 1 or p_lanes = pg_catalog.array_fill(p_lanes[1], array[v_count])) then
    -- Several spans are those of consumers that share the claim. v_seqs stays null, and matches no claim, if a span is
    -- invalid or two overlap.
    if v_count = 1 then
      v_seqs := int8multirange(laneway.span_between(p_first[1], p_last[1]));
    else
      select case
               when a.all_valid
                    and a.messages = (select sum(upper(r.span) - lower(r.span)) from unnest(a.seqs) r (span))
               then a.seqs
             end
        into v_seqs
        from (select range_agg(u.span) as seqs,
                     sum(upper(u.span) - lower(u.span)) as messages,
                     count(u.span) = v_count as all_valid
                from (select laneway.span_between(i.first_seq, i.last_seq) as span
                        from unnest(p_first, p_last) i (first_seq, last_seq)) u) a;
    end if;
    delete from laneway.claim c
     where c.token = p_tokens[1]
       and c.lane_id = p_lanes[1]
       and (c.until > v_now) is true
       and c.pending = v_seqs
    returning c.queue_id, c.group_id, c.segment, c.attempt, c.aside, c.consumer, c.claimed_at into v_claim;
    if not found then
      update laneway.claim c
         set pending = c.pending - v_seqs
       where c.token = p_tokens[1]
         and c.lane_id = p_lanes[1]
         and (c.until > v_now) is true
         and c.pending @> v_seqs
         and c.pending <> v_seqs
      returning c.queue_id, c.group_id, c.segment, c.attempt, c.aside, c.consumer, c.claimed_at into v_claim;
      if not found then
        return query select * from laneway.ack_parts(p_tokens, p_lanes, p_first, p_last);
        return;
      end if;
    end if;
    if v_claim.queue_id is not null then
      insert into laneway.event (
        segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
        attempt, token, consumer, since, part_first, part_last)
      values (
        laneway.claim_event_segment(v_claim.segment, v_claim.aside), v_now, 'acked', v_claim.queue_id,
        v_claim.group_id, p_lanes[1], v_claim.segment, lower(v_seqs), upper(v_seqs) - 1,
        v_claim.attempt, p_tokens[1], v_claim.consumer, v_claim.claimed_at,
        laneway.several_elements(p_first), laneway.several_elements(p_last));
    end if;
    return;
  end if;

  -- Several claims or parts: ack the spans that are all that is pending in theirs.
  if p_shared then
    v_acked := laneway.ack_shares(p_tokens, p_lanes, p_first, p_last);
  elsif v_one_token then
    -- One consumer's claim of several lanes, a part each.
    with ended as (
      delete from laneway.claim c
       where c.token = p_tokens[1]
         and (c.until > v_now) is true
         and c.pending = int8multirange(laneway.span_between(
               p_first[array_position(p_lanes, c.lane_id)], p_last[array_position(p_lanes, c.lane_id)]))
      returning array_position(p_lanes, c.lane_id) as i, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt,
                c.aside, c.consumer, c.claimed_at),
    recorded as (
      insert into laneway.event (
        segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
        attempt, token, consumer, since)
      select laneway.claim_event_segment(e.segment, e.aside), v_now, 'acked', e.queue_id,
             e.group_id, e.lane_id, e.segment, p_first[e.i], p_last[e.i],
             e.attempt, p_tokens[1], e.consumer, e.claimed_at
        from ended e
       where e.queue_id is not null)
    select array_agg(e.i) into v_acked from ended e;
  else
    -- Claims are found by their key one by one and deleted by their row's address, whatever the statistics say: a plan
    -- for few rows would walk over all the deleted ones.
    with ended as (
      delete from laneway.claim c
       using (select s.token, s.lane_id, s.first_seq, s.last_seq, s.i, k.place
                from (select u.token, u.lane_id, u.first_seq, u.last_seq, u.i
                        from unnest(p_tokens, p_lanes, p_first, p_last)
                             with ordinality u (token, lane_id, first_seq, last_seq, i)
                       order by u.lane_id, u.token
                      offset 0) s
               cross join lateral (
                 select o.ctid as place
                   from laneway.claim o
                  where o.token = s.token
                    and o.lane_id = s.lane_id
                    and o.pending = int8multirange(laneway.span_between(s.first_seq, s.last_seq))
                 offset 0) k
              offset 0) s
       where c.ctid = s.place
         and (c.until > v_now) is true
         and c.pending = int8multirange(laneway.span_between(s.first_seq, s.last_seq))
      returning s.i::int, c.queue_id, c.group_id, c.lane_id, c.segment, s.first_seq, s.last_seq, c.attempt, c.aside,
                c.token, c.consumer, c.claimed_at),
    by_lane as (
      select e.queue_id, e.group_id, e.lane_id, e.segment, e.attempt, e.aside,
             min(e.first_seq) as first_seq,
             max(e.last_seq) as last_seq,
             array_agg(e.first_seq) as firsts,
             array_agg(e.last_seq) as lasts,
             array_agg(e.token) as tokens,
             array_agg(e.consumer) as consumers,
             array_agg(e.claimed_at) as since
        from ended e
       where e.queue_id is not null
       group by e.queue_id, e.group_id, e.lane_id, e.segment, e.attempt, e.aside),
    recorded as (
      insert into laneway.event (
        segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
        token, consumer, since,
        part_first, part_last, part_token, part_consumer, part_since)
      select laneway.claim_event_segment(l.segment, l.aside), v_now, 'acked', l.queue_id,
             l.group_id, l.lane_id, l.segment, l.first_seq, l.last_seq, l.attempt,
             laneway.only_element(l.tokens), laneway.only_element(l.consumers), laneway.only_element(l.since),
             laneway.several_elements(l.firsts), laneway.several_elements(l.lasts),
             laneway.several_elements(l.tokens), laneway.several_elements(l.consumers),
             laneway.several_elements(l.since)
        from by_lane l)
    select array_agg(e.i) into v_acked from ended e;
  end if;

  -- The other spans go the general way. Number them as the caller does.
  if coalesce(cardinality(v_acked), 0) < v_count then
    v_rest := array(
      select r.i
        from generate_subscripts(p_tokens, 1) r (i)
       where (r.i = any (v_acked)) is not true
       order by r.i);
    return query
      select v_rest[p.idx + 1] - 1, p.first_seq, p.last_seq
        from laneway.ack_parts(
               array(select p_tokens[r.i] from unnest(v_rest) r (i)),
               array(select p_lanes[r.i] from unnest(v_rest) r (i)),
               array(select p_first[r.i] from unnest(v_rest) r (i)),
               array(select p_last[r.i] from unnest(v_rest) r (i))) p;
  end if;
end $$;
