-- Roll back because a message was not acked. For callers that ack everything or nothing:
-- select laneway.raise_lease_lost(a.first_seq) from laneway.ack_many(…) a, which costs nothing if all is acked.
-- Locks: none. Errors: LW410, always.
create or replace function laneway.raise_lease_lost(p_seq bigint) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception 'lease of message % has ended', p_seq
    using errcode = 'LW410',
          hint = 'Nothing was acked. Claim the message again.';
end $$;
