-- Claim messages like claim_spans, and return a row per message, in the order of their waiters and, for each, of
-- delivery.
-- Arguments: see claim_spans. Locks: see claim_spans. Errors: see claim_spans.
create or replace function laneway.claim_many(
  p_group_id int,
  p_wants int[],
  p_leases interval[] default null,
  p_consumers text[] default null,
  p_partition text default null,
  p_priority smallint default null,
  p_alone boolean default false)
returns table (
  waiter int,
  token uuid,
  segment int,
  lane_id int,
  seq bigint,
  partition text,
  priority smallint,
  attempt smallint,
  created_at timestamptz,
  until timestamptz,
  lease interval,
  max_attempts smallint,
  key text,
  headers json,
  body json,
  error text)
language sql
set search_path = ''
as $$
  select s.waiter, s.token, s.segment, s.lane_id, s.first_seq + m.n - 1, s.partition, s.priority,
         coalesce(s.attempts[m.n], s.attempt), s.created_at[m.n], s.until, s.leases[m.n], s.max_attempts[m.n],
         s.keys[m.n], s.headers[m.n], m.body, s.errors[m.n]
    from laneway.claim_spans(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority, p_alone)
         with ordinality s
    cross join lateral unnest(s.bodies) with ordinality m (body, n)
   order by s.waiter, s.positions[m.n], max(s.created_at[m.n]) over (partition by s.ordinality order by m.n),
            s.ordinality, m.n;
$$;
