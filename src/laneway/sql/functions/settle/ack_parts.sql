-- ack_many's general path: claims settled in part, held in several parts, or no longer held.
-- Arguments and answer are ack_many's. Locks: the claims' rows, in order of lane, token and part. Errors: LW422 arrays that do not fit, or a run that cannot be.
create or replace function laneway.ack_parts(p_tokens uuid[], p_lanes int[], p_first bigint[], p_last bigint[])
returns table (idx int, first_seq bigint, last_seq bigint)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_item record;
  v_claim laneway.claim;
  v_missed int8multirange;
  v_settled laneway.claim[] := '{}';      -- with what was settled of it as pending
begin
  if array_position(p_tokens, null) is not null or array_position(p_lanes, null) is not null or array_position(p_first, null) is not null
     or array_position(p_last, null) is not null or cardinality(p_lanes) is distinct from cardinality(p_tokens) or cardinality(p_first) is distinct from cardinality(p_tokens)
     or cardinality(p_last) is distinct from cardinality(p_tokens) then
    raise exception 'tokens, lanes, first and last must be as many, and none of them null' using errcode = 'LW422';
  end if;
  if exists (select from unnest(p_first, p_last) u (a, b) where u.a > u.b or u.b = 9223372036854775807) then
    raise exception 'a run cannot end before it begins, or at 9223372036854775807' using errcode = 'LW422';
  end if;
  for v_item in
    select u.token, u.lane_id, range_agg(int8range(u.first_seq, u.last_seq, '[]')) as seqs
      from unnest(p_tokens, p_lanes, p_first, p_last) u (token, lane_id, first_seq, last_seq) group by u.token, u.lane_id order by u.lane_id, u.token
  loop
    v_missed := v_item.seqs;
    for v_claim in select c.* from laneway.claim c where c.token = v_item.token and c.lane_id = v_item.lane_id and (c.until > v_now) is true order by c.part for update loop
      continue when not v_claim.pending && v_missed;
      if v_claim.pending <@ v_missed then
        delete from laneway.claim where token = v_claim.token and lane_id = v_claim.lane_id and part = v_claim.part;
      else
        update laneway.claim set pending = v_claim.pending - v_missed where token = v_claim.token and lane_id = v_claim.lane_id and part = v_claim.part;
      end if;
      v_claim.pending := v_claim.pending * v_missed;
      v_missed := v_missed - v_claim.pending;
      v_settled := v_settled || v_claim;
    end loop;
    return query
      select u.n::int - 1, lower(r.range), upper(r.range) - 1
        from unnest(p_tokens, p_lanes, p_first, p_last) with ordinality u (token, lane_id, first_seq, last_seq, n)
        cross join lateral unnest(v_missed * int8multirange(int8range(u.first_seq, u.last_seq, '[]'))) r (range)
       where u.token = v_item.token and u.lane_id = v_item.lane_id;
  end loop;
  insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
                             token, consumer, since, part_first, part_last, part_token, part_consumer, part_since)
  select laneway.current_segment(true), v_now, 'acked', c.queue_id, c.group_id, c.lane_id, c.segment, min(lower(r.range)), max(upper(r.range)) - 1, c.attempt,
         case when count(*) = 1 then (array_agg(c.token))[1] end, case when count(*) = 1 then min(c.consumer) end, case when count(*) = 1 then min(c.claimed_at) end,
         case when count(*) > 1 then array_agg(lower(r.range)) end, case when count(*) > 1 then array_agg(upper(r.range) - 1) end,
         case when count(*) > 1 then array_agg(c.token) end, case when count(*) > 1 then array_agg(c.consumer) end, case when count(*) > 1 then array_agg(c.claimed_at) end
    from unnest(v_settled) c
    cross join lateral unnest(c.pending) r (range)
   where c.queue_id is not null
   group by c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt;
end $$;
