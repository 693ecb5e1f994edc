-- Return how many seqs a set of spans contains. Locks: none. Errors: none.
create or replace function laneway.count_seqs(p_seqs int8multirange) returns bigint
language sql immutable parallel safe set search_path = ''
return (select coalesce(sum(upper(r.span) - lower(r.span)), 0)::bigint from unnest(p_seqs) r (span));
