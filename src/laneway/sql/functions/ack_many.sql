-- Settles messages: the runs p_first[i] .. p_last[i] of p_lanes[i], as far as the claims p_tokens[i] still hold
-- them in time. Answers only what was not settled, by run (0-based); for that nothing changed.
-- Locks: the claims' rows. Errors: none.
create or replace function laneway.ack_many(p_tokens uuid[], p_lanes int[], p_first bigint[], p_last bigint[])
returns table (idx int, first_seq bigint, last_seq bigint)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_ctids tid[];
  v_settled int;
begin
  -- Most claims are settled whole, one run each: found by their key one by one, whatever the statistics say, and
  -- deleted by address, in that order. Whoever changed one in between gets the longer way below.
  v_ctids := array(
    select c.ctid from unnest(p_tokens, p_lanes, p_first, p_last) u (token, lane_id, first_seq, last_seq)
     cross join lateral (select c.ctid from laneway.claim c
                          where c.token = u.token and c.lane_id = u.lane_id and c.until > v_now
                            and c.pending = int8multirange(int8range(u.first_seq, u.last_seq, '[]')) offset 0) c);
  if cardinality(v_ctids) < cardinality(p_tokens) then
    return query select * from laneway.ack_parts(p_tokens, p_lanes, p_first, p_last);
    return;
  end if;
  with settled as (
    delete from laneway.claim where ctid = any (v_ctids) and until > v_now
    returning group_id, lane_id, segment, first_seq, last_seq, pending, attempt, token, consumer, claimed_at),
  recorded as (
    insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
                               token, consumer, since, part_first, part_last, part_token, part_consumer, part_since)
    select (select s.segment from laneway.segment s where s.opened_at is not null and s.segment % 2 = 0 order by s.segment desc limit 1),
           v_now, 'acked', q.queue_id, c.group_id, c.lane_id, c.segment, min(lower(c.pending)), max(upper(c.pending) - 1), c.attempt,
           case when count(*) = 1 then (array_agg(c.token))[1] end, case when count(*) = 1 then min(c.consumer) end, case when count(*) = 1 then min(c.claimed_at) end,
           case when count(*) > 1 then array_agg(lower(c.pending)) end, case when count(*) > 1 then array_agg(upper(c.pending) - 1) end,
           case when count(*) > 1 then array_agg(c.token) end, case when count(*) > 1 then array_agg(c.consumer) end, case when count(*) > 1 then array_agg(c.claimed_at) end
      from settled c
      join laneway.consumer_group g on g.group_id = c.group_id join laneway.queue q on q.queue_id = g.queue_id and q.record_events
     group by q.queue_id, c.group_id, c.lane_id, c.segment, c.attempt)
  select count(*) into v_settled from settled;
  if v_settled < (select count(distinct c) from unnest(v_ctids) c) then
    raise exception 'a claim changed while it was being settled' using errcode = 'LW503', hint = 'Nothing was settled; call again.';
  end if;
end $$;
