-- Claim more messages for a consumer that has just claimed some: up to p_want messages, in an ordered group of up to
-- p_lanes more lanes, in a shared group of any. One new lease covers all of them and the claim p_token of lane
-- p_lane_id.
-- Result: span: see claim_spans; lease: the new lease, the same in every row. No row: nothing was claimed.
-- Locks: see claim_spans. Errors: see claim_spans.
create or replace function laneway.widen_lease(
  p_group_id int,
  p_token uuid,
  p_lane_id int,
  p_want int,
  p_lanes int,
  p_lease interval default null,
  p_consumer text default null)
returns table (lease uuid, span laneway.claimed_span)
language plpgsql
set search_path = ''
as $$
declare
  -- A UUID of another version than claims' tokens have.
  v_lease uuid := overlay(gen_random_uuid()::text placing '8' from 15 for 1)::uuid;
  v_tokens uuid[] := array[p_token];
  v_lanes int[] := array[p_lane_id];
  v_ordered boolean := (select g.ordered from laneway.consumer_group g where g.group_id = p_group_id);
  v_messages_left int := p_want;
  v_lanes_left int := p_lanes;
  v_waiters int;
  v_spans int;
  v_span laneway.claimed_span;
begin
  while v_messages_left > 0 and v_lanes_left > 0 loop
    -- In an ordered group each waiter gets one lane; in a shared group one waiter gets the oldest messages of all
    -- lanes.
    v_waiters := case when v_ordered then least(v_messages_left, v_lanes_left, 16) else 1 end;
    v_spans := 0;
    for v_span in
      select *
        from laneway.claim_spans(
               p_group_id,
               array(select v_messages_left / v_waiters + case when n <= v_messages_left % v_waiters then 1 else 0 end
                       from generate_series(1, v_waiters) n),
               case when p_lease is not null then array_fill(p_lease, array[v_waiters]) end,
               case when p_consumer is not null then array_fill(p_consumer, array[v_waiters]) end)
    loop
      if v_span.token <> all (v_tokens) then
        v_tokens := v_tokens || v_span.token;
        v_lanes := v_lanes || v_span.lane_id;
      end if;
      v_messages_left := v_messages_left - cardinality(v_span.bodies);
      v_lanes_left := v_lanes_left - 1;
      v_spans := v_spans + 1;
      lease := v_lease;
      span := v_span;
      return next;
    end loop;
    exit when v_spans < v_waiters or not v_ordered;
  end loop;
  if cardinality(v_tokens) > 1 then
    insert into laneway.stream_lease (lease, tokens, lanes) values (v_lease, v_tokens, v_lanes);
  end if;
end $$;
