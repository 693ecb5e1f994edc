-- The seqs from one to another as a range; null where they are none that a message can have, or the wrong way round.
-- Locks: none. Errors: none.
create or replace function laneway.span_between(p_first bigint, p_last bigint) returns int8range
language sql immutable parallel safe
return case when p_first >= 0 and p_first <= p_last and p_last < 9223372036854775807 then int8range(p_first, p_last, '[]') end;
