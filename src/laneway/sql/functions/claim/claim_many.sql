-- Hands out messages of a group to many waiting consumers at once: claim_spans, a row for each message.
-- Arguments, locks and errors are claim_spans'; the rows come in the order of their waiters and, for each, in the
-- order of delivery.
create or replace function laneway.claim_many(
  p_group_id int, p_wants int[], p_leases interval[] default null, p_consumers text[] default null,
  p_partition text default null, p_priority smallint default null, p_alone boolean default false)
returns table (waiter int, token uuid, segment int, lane_id int, seq bigint, partition text, priority smallint, attempt smallint,
  created_at timestamptz, until timestamptz, lease interval, max_attempts smallint, key text, headers json, body json, error text)
language sql set search_path = '' as $$
  select c.waiter, c.token, c.segment, c.lane_id, c.first_seq + m.n - 1, c.partition, c.priority, coalesce(c.attempts[m.n], c.attempt),
         c.created_at[m.n], c.until, c.leases[m.n], c.max_attempts[m.n], c.keys[m.n], c.headers[m.n], m.body, c.errors[m.n]
    from laneway.claim_spans(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority, p_alone) with ordinality
         c (waiter, token, segment, lane_id, first_seq, partition, priority, attempt, until, positions, attempts, created_at, leases, max_attempts, keys, headers, bodies, errors, row)
    cross join lateral unnest(c.bodies) with ordinality m (body, n)
   order by c.waiter, c.positions[m.n], max(c.created_at[m.n]) over (partition by c.row order by m.n), c.row, m.n;
$$;
