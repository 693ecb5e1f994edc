-- Extend a message's lease to p_lease from now. Return the new deadline, or null if the token's lease has ended.
-- Locks: as extend_many.
-- Errors: LW422 not a message id, or a lease that is not positive or over 1000 years.
create or replace function laneway.extend(p_id text, p_token uuid, p_lease interval) returns timestamptz
language plpgsql
set search_path = ''
as $$
begin
  if (p_lease > interval '0') is not true then
    raise exception 'lease must be positive, not %', coalesce(p_lease::text, 'null')
      using errcode = 'LW422', hint = 'Give the time from now, such as ''5 minutes''. To return a message, nack it.';
  end if;
  return (
    select e.until
      from laneway.parse_id(p_id) i
      cross join lateral laneway.extend_many(array[p_token], array[i.lane_id], array[i.seq], array[p_lease]) e);
end $$;
