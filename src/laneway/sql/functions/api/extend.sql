-- Has a message's lock last for p_lease from now; answers the new deadline, null where the token no longer holds it.
-- Locks: as extend_many. Errors: LW422 not an id, or a time that is not longer than nothing, or of more than 1000 years.
create or replace function laneway.extend(p_id text, p_token uuid, p_lease interval) returns timestamptz
language plpgsql set search_path = '' as $$
begin
  if (p_lease > interval '0') is not true then
    raise exception 'a lock cannot last for %', coalesce(p_lease::text, 'nothing') using errcode = 'LW422', hint = 'Say how long from now, such as 5 minutes; nack gives a message back.';
  end if;
  return (select e.until from laneway.parse_id(p_id) i cross join lateral laneway.extend_many(array[p_token], array[i.lane_id], array[i.seq], array[p_lease]) e);
end $$;
