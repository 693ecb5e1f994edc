-- Ends the transaction over a message that was not settled. For those who settle all that they name or nothing:
-- select laneway.raise_lease_lost(a.first_seq) from laneway.ack_many(…) a, which costs nothing where all of it was held.
-- Locks: none. Errors: LW410, always.
create or replace function laneway.raise_lease_lost(p_seq bigint) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception 'message % is no longer held by its token', p_seq using errcode = 'LW410', hint = 'Its lock was lost; nothing was settled.';
end $$;
