-- Adds to what one consumer was just handed: up to p_want messages more, in ordered groups of p_lanes lanes more, in others of
-- any, all under one lease that p_token becomes part of. Answers claim_spans' rows; the lease, where one was made, is in each of them. Locks: as claim_spans. Errors: those of claim_spans.
create or replace function laneway.widen_lease(
  p_group_id int, p_token uuid, p_lane_id int, p_want int, p_lanes int, p_lease interval default null, p_consumer text default null)
returns table (lease uuid, waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_lease uuid := overlay(gen_random_uuid()::text placing '8' from 15 for 1)::uuid; -- tells it from a claim's token
  v_tokens uuid[] := array[p_token];
  v_held int[] := array[p_lane_id];
  v_ordered boolean := (select g.ordered from laneway.consumer_group g where g.group_id = p_group_id);
  v_want int := p_want;
  v_lanes int := p_lanes;
  v_waiters int;
  v_got int;
  v_run record;
begin
  while v_want > 0 and v_lanes > 0 loop
    -- In an ordered group each waiter gets one lane; in others one gets the oldest of all.
    v_waiters := case when v_ordered then least(v_want, v_lanes, 16) else 1 end;
    v_got := 0;
    for v_run in
      select r.* from laneway.claim_spans(p_group_id, array(select v_want / v_waiters + case when n <= v_want % v_waiters then 1 else 0 end from generate_series(1, v_waiters) n),
        case when p_lease is not null then array_fill(p_lease, array[v_waiters]) end,
        case when p_consumer is not null then array_fill(p_consumer, array[v_waiters]) end) r
    loop
      if v_run.token <> all (v_tokens) then
        v_tokens := v_tokens || v_run.token;
        v_held := v_held || v_run.lane_id;
      end if;
      v_want := v_want - cardinality(v_run.bodies);
      v_lanes := v_lanes - 1;
      v_got := v_got + 1;
      return query select v_lease, v_run.waiter, v_run.token, v_run.segment, v_run.lane_id, v_run.first_seq, v_run.partition, v_run.priority, v_run.attempt, v_run.until,
        v_run.positions, v_run.attempts, v_run.created_at, v_run.leases, v_run.max_attempts, v_run.keys, v_run.headers, v_run.bodies, v_run.errors;
    end loop;
    exit when v_got < v_waiters or not v_ordered;
  end loop;
  if cardinality(v_tokens) > 1 then
    insert into laneway.stream_lease (lease, tokens, lanes) values (v_lease, v_tokens, v_held);
  end if;
end $$;
