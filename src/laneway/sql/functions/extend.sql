-- Has a message's lock last for p_lease from now; answers the new deadline, null where the token no longer holds it.
-- Locks: as extend_many. Errors: LW422 not an id.
create or replace function laneway.extend(p_id text, p_token uuid, p_lease interval) returns timestamptz
language sql set search_path = '' as $$
  select e.until from laneway.parse_id(p_id) i cross join lateral laneway.extend_many(array[p_token], array[i.lane_id], array[i.seq], array[p_lease]) e;
$$;
