-- Has all that a worker has in hand stay locked for at least p_lease from now: also what it took and has not seen yet,
-- while it cannot look. Locks: the claims' rows, in order of lane and token. Errors: none.
create or replace function laneway.hold_for_worker(p_worker_id text, p_lease interval) returns void
language sql set search_path = '' as $$
  with held as (
    select c.token, c.part from laneway.claim c
     where c.consumer = p_worker_id and c.until > clock_timestamp() and c.until < clock_timestamp() + p_lease
     order by c.lane_id, c.token, c.part for update
  )
  update laneway.claim c set until = clock_timestamp() + p_lease from held h where c.token = h.token and c.part = h.part;
$$;
