-- Ack spans of which several may belong to one claim, because consumers share it. Delete or reduce each claim once.
-- Called by ack_many, with its arguments. Return the positions (from 1) of the spans that were acked. Not among them
-- are those of claims with several parts in a lane, those that overlap, and those whose claim has ended or changed
-- meanwhile.
-- Locks: the claims' rows, in order of lane, token and part. Errors: none.
create or replace function laneway.ack_shares(
  p_tokens uuid[],
  p_lanes int[],
  p_first bigint[],
  p_last bigint[])
returns int[]
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off set enable_material = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_acked int[];
begin
  with wanted as materialized (
    -- per token and lane
    select s.token, s.lane_id,
           range_agg(s.span) as seqs,
           sum(upper(s.span) - lower(s.span)) as messages,
           count(s.span) = count(*) as all_valid,
           array_agg(s.i::int) as positions,
           array_agg(s.first_seq) as firsts,
           array_agg(s.last_seq) as lasts
      from (select u.token, u.lane_id, u.first_seq, u.last_seq, u.i,
                   laneway.span_between(u.first_seq, u.last_seq) as span
              from unnest(p_tokens, p_lanes, p_first, p_last)
                   with ordinality u (token, lane_id, first_seq, last_seq, i)) s
     group by s.lane_id, s.token
     order by s.lane_id, s.token),
  covered as materialized (
    -- Lock all parts that the tokens have in these lanes, in order: some are deleted, some reduced, others left to
    -- ack_parts.
    select w.seqs, w.positions, w.firsts, w.lasts, k.place, k.is_whole
      from wanted w
     cross join lateral (
       select o.ctid as place, o.pending, o.pending = w.seqs as is_whole
         from laneway.claim o
        where o.token = w.token
          and o.lane_id = w.lane_id
        order by o.part
          for update) k
     where k.pending @> w.seqs
       and w.all_valid
       and w.messages = (select sum(upper(r.span) - lower(r.span)) from unnest(w.seqs) r (span))),
  ended as (
    delete from laneway.claim c
     using (select v.* from covered v where v.is_whole offset 0) v
     where c.ctid = v.place
       and (c.until > v_now) is true
       and c.pending = v.seqs
    returning v.positions, v.firsts, v.lasts, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside,
              c.token, c.consumer, c.claimed_at),
  reduced as (
    update laneway.claim c
       set pending = c.pending - v.seqs
      from (select v.* from covered v where not v.is_whole offset 0) v
     where c.ctid = v.place
       and (c.until > v_now) is true
       and c.pending @> v.seqs
       and c.pending <> v.seqs
    returning v.positions, v.firsts, v.lasts, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside,
              c.token, c.consumer, c.claimed_at),
  acked as materialized (
    select u.position, c.queue_id, c.group_id, c.lane_id, c.segment, c.attempt, c.aside,
           u.first_seq, u.last_seq, c.token, c.consumer, c.claimed_at
      from (select e.* from ended e union all select r.* from reduced r) c
     cross join lateral unnest(c.positions, c.firsts, c.lasts) u (position, first_seq, last_seq)),
  by_lane as (
    select a.queue_id, a.group_id, a.lane_id, a.segment, a.attempt, a.aside,
           min(a.first_seq) as first_seq,
           max(a.last_seq) as last_seq,
           array_agg(a.first_seq) as firsts,
           array_agg(a.last_seq) as lasts,
           array_agg(a.token) as tokens,
           array_agg(a.consumer) as consumers,
           array_agg(a.claimed_at) as since
      from acked a
     where a.queue_id is not null
     group by a.queue_id, a.group_id, a.lane_id, a.segment, a.attempt, a.aside),
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
  select array_agg(a.position) into v_acked from acked a;
  return v_acked;
end $$;
