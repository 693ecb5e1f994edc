-- Return the span of seqs from p_first to p_last, both included. Null if a message cannot have such a seq, or if the
-- span ends before it begins. Locks: none. Errors: none.
create or replace function laneway.span_between(p_first bigint, p_last bigint) returns int8range
language sql immutable parallel safe
return case
         when p_first >= 0 and p_first <= p_last and p_last < 9223372036854775807
         then int8range(p_first, p_last, '[]')
       end;
