-- Ack messages by the general algorithm of ack_many: of claims that are acked in part, have several parts in a lane, or
-- have ended.
-- Arguments and result are those of ack_many.
-- Locks: the claims' rows, in order of lane, token and part.
-- Errors: LW422 the arrays differ in length, or a span is invalid.
create or replace function laneway.ack_parts(
  p_tokens uuid[],
  p_lanes int[],
  p_first bigint[],
  p_last bigint[])
returns table (idx int, first_seq bigint, last_seq bigint)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_item record;                         -- a token and lane, with all seqs to ack there
  v_claim laneway.claim;
  v_missed int8multirange;
  v_acked laneway.claim[] := '{}';       -- parts, each with what was acked of it as pending
begin
  if array_position(p_tokens, null) is not null
     or array_position(p_lanes, null) is not null
     or array_position(p_first, null) is not null
     or array_position(p_last, null) is not null
     or cardinality(p_lanes) is distinct from cardinality(p_tokens)
     or cardinality(p_first) is distinct from cardinality(p_tokens)
     or cardinality(p_last) is distinct from cardinality(p_tokens) then
    raise exception 'tokens, lanes, first and last seqs differ in number, or one is null' using errcode = 'LW422';
  end if;
  if exists (
       select
         from unnest(p_first, p_last) u (first_seq, last_seq)
        where u.first_seq > u.last_seq
           or u.last_seq = 9223372036854775807) then
    raise exception 'invalid span: it ends before it begins, or at 9223372036854775807' using errcode = 'LW422';
  end if;

  -- Remove the spans from the claims.
  for v_item in
    select u.token, u.lane_id, range_agg(int8range(u.first_seq, u.last_seq, '[]')) as seqs
      from unnest(p_tokens, p_lanes, p_first, p_last) u (token, lane_id, first_seq, last_seq)
     group by u.token, u.lane_id
     order by u.lane_id, u.token
  loop
    v_missed := v_item.seqs;
    for v_claim in
      select c.*
        from laneway.claim c
       where c.token = v_item.token
         and c.lane_id = v_item.lane_id
         and (c.until > v_now) is true
       order by c.part
         for update
    loop
      continue when not v_claim.pending && v_missed;
      if v_claim.pending <@ v_missed then
        delete from laneway.claim
         where token = v_claim.token
           and lane_id = v_claim.lane_id
           and part = v_claim.part;
      else
        update laneway.claim
           set pending = v_claim.pending - v_missed
         where token = v_claim.token
           and lane_id = v_claim.lane_id
           and part = v_claim.part;
      end if;
      v_claim.pending := v_claim.pending * v_missed;
      v_missed := v_missed - v_claim.pending;
      v_acked := v_acked || v_claim;
    end loop;
    return query
      select u.n::int - 1, lower(r.span), upper(r.span) - 1
        from unnest(p_tokens, p_lanes, p_first, p_last)
             with ordinality u (token, lane_id, first_seq, last_seq, n)
       cross join lateral unnest(v_missed * int8multirange(int8range(u.first_seq, u.last_seq, '[]'))) r (span)
       where u.token = v_item.token
         and u.lane_id = v_item.lane_id;
  end loop;

  -- Record an event per lane and attempt.
  insert into laneway.event (
    segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
    token, consumer, since,
    part_first, part_last, part_token, part_consumer, part_since)
  select laneway.current_segment(true), v_now, 'acked', c.queue_id,
         c.group_id, c.lane_id, c.segment, min(lower(r.span)), max(upper(r.span)) - 1, c.attempt,
         laneway.only_element(array_agg(c.token)),
         laneway.only_element(array_agg(c.consumer)),
         laneway.only_element(array_agg(c.claimed_at)),
         laneway.several_elements(array_agg(lower(r.span))),
         laneway.several_elements(array_agg(upper(r.span) - 1)),
         laneway.several_elements(array_agg(c.token)),
         laneway.several_elements(array_agg(c.consumer)),
         laneway.several_elements(array_agg(c.claimed_at))
    from unnest(v_acked) c
   cross join lateral unnest(c.pending) r (span)
   where c.queue_id is not null
   group by c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt;
end $$;
