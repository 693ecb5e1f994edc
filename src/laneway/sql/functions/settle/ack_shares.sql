-- ack_many where several runs are of one claim: each claim is changed once, whether it ends or keeps some of what it holds.
-- Arguments are ack_many's; answers the runs (1-based) that were settled. Not among them: what is held in several parts, overlaps
-- another run, is held no longer, or is being changed by somebody else.
-- Locks: the claims' rows, in order of lane, token and part. Errors: none.
create or replace function laneway.ack_shares(p_tokens uuid[], p_lanes int[], p_first bigint[], p_last bigint[]) returns int[]
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_settled int[];
begin
  with wanted as materialized (
    select u.token, u.lane_id, range_agg(u.run) as seqs, sum(upper(u.run) - lower(u.run)) as n, count(u.run) = count(*) as fit, array_agg(u.i::int) as runs, array_agg(u.first_seq) as firsts, array_agg(u.last_seq) as lasts
      from (select u.*, laneway.span_between(u.first_seq, u.last_seq) as run from unnest(p_tokens, p_lanes, p_first, p_last) with ordinality u (token, lane_id, first_seq, last_seq, i)) u group by u.lane_id, u.token order by u.lane_id, u.token),
  held as materialized (
    select w.*, k.place, k.whole from wanted w
     -- All that the tokens hold there is locked in order: what follows ends some, changes others, and leaves the rest to ack_parts.
     cross join lateral (select k.ctid as place, k.pending, k.pending = w.seqs as whole from laneway.claim k where k.token = w.token and k.lane_id = w.lane_id order by k.part for update) k
     where k.pending @> w.seqs and w.fit and w.n = (select sum(upper(r.range) - lower(r.range)) from unnest(w.seqs) r (range))),
  ended as (
    delete from laneway.claim c using (select h.* from held h where h.whole offset 0) h
     where c.ctid = h.place and (c.until > v_now) is true and c.pending = h.seqs
    returning h.runs, h.firsts, h.lasts, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside, c.token, c.consumer, c.claimed_at),
  cut as (
    update laneway.claim c set pending = c.pending - h.seqs from (select h.* from held h where not h.whole offset 0) h
     where c.ctid = h.place and (c.until > v_now) is true and c.pending @> h.seqs and c.pending <> h.seqs
    returning h.runs, h.firsts, h.lasts, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside, c.token, c.consumer, c.claimed_at),
  settled as materialized (
    select u.run, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside, u.first_seq, u.last_seq, c.token, c.consumer, c.claimed_at
      from (select e.* from ended e union all select x.* from cut x) c
      cross join lateral unnest(c.runs, c.firsts, c.lasts) u (run, first_seq, last_seq)),
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
  select array_agg(c.run) into v_settled from settled c;
  return v_settled;
end $$;
