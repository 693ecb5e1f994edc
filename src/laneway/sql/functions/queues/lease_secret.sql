-- Return the 32 bytes from which servers make the lease tokens of consumers. Locks: none. Errors: none.
create or replace function laneway.lease_secret() returns bytea
language sql stable
set search_path = ''
as $$
  select i.lease_secret from laneway.identity i;
$$;
