-- claim_spans for ordered groups: claim_lanes without its first column.
-- Arguments, answer, locks and errors are claim_spans'.
create or replace function laneway.claim_ordered(
  p_group_id int, p_wants int[], p_leases interval[], p_consumers text[], p_partition text, p_priority smallint)
returns table (waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language sql set search_path = '' as $$
  select c.waiter, c.token, c.segment, c.lane_id, c.first_seq, c.partition, c.priority, c.attempt, c.until, c.positions, c.attempts, c.created_at, c.leases, c.max_attempts,
         c.keys, c.headers, c.bodies, c.errors
    from laneway.claim_lanes(p_group_id, p_wants, p_leases, p_consumers, case when p_partition is not null then array[p_partition] end, p_priority) c;
$$;
