-- Lease a span of one lane of a shared group as one claim, and return its token. All waiters share the claim; the
-- event names what each of them gets.
-- p_place: of the reader's progress row, which is replaced. p_first, p_last: the span. p_wants: messages per waiter.
-- p_one_each: each waiter wants one message. p_record_events: of the group. p_now, p_until: when the lease begins and
-- ends.
-- The caller has locked the reader. Locks: none of its own. Errors: none.
create or replace function laneway.lease_span(
  p_group_id int,
  p_queue_id int,
  p_reader_id int,
  p_lane_id int,
  p_segment int,
  p_place tid,
  p_first bigint,
  p_last bigint,
  p_wants int[],
  p_one_each boolean,
  p_consumer text,
  p_record_events boolean,
  p_now timestamptz,
  p_until timestamptz)
returns uuid
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_token uuid := gen_random_uuid();
  v_firsts bigint[];                     -- arrays: what each waiter gets, where there are several
  v_lasts bigint[];
begin
  if p_one_each then
    v_firsts := array(select generate_series(p_first, p_last));
    v_lasts := v_firsts;
  elsif cardinality(p_wants) > 1 then
    select array_agg(p_first + w.upto - w.want), array_agg(least(p_first + w.upto - 1, p_last))
      into v_firsts, v_lasts
      from (select u.want, sum(u.want) over (order by u.i) as upto
              from unnest(p_wants) with ordinality u (want, i)) w
     where w.want > 0
       and p_first + w.upto - w.want <= p_last;
  end if;
  with new_progress as (
    insert into laneway.progress (reader_id, segment, seq, moved_at)
    values (p_reader_id, p_segment, p_last, p_now)),
  old_progress as (
    delete from laneway.progress
     where ctid = p_place),
  new_event as (
    insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
                               attempt, token, consumer, part_first, part_last)
    select laneway.event_segment(p_segment), p_now, 'claimed', p_queue_id, p_group_id, p_lane_id,
           p_segment, p_first, p_last, 1, v_token, p_consumer, v_firsts, v_lasts
     where p_record_events)
  insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt,
                             aside, claimed_at, until, consumer, queue_id)
  values (v_token, p_reader_id, p_group_id, p_lane_id, p_segment, p_first, p_last,
          int8multirange(int8range(p_first, p_last, '[]')), 1, false,
          p_now, p_until, p_consumer,
          case when p_record_events then p_queue_id end);
  return v_token;
end $$;
