-- Return the tokens of the claims that a lease covers: several if it spans lanes, else its own.
-- Locks: none. Errors: none.
create or replace function laneway.lease_tokens(p_lease uuid) returns uuid[]
language sql stable set search_path = ''
return coalesce(
  (select s.tokens from laneway.stream_lease s where s.lease = p_lease),
  array[p_lease]);
