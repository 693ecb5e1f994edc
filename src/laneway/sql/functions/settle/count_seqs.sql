-- How many seqs a set of ranges holds. Locks: none. Errors: none.
create or replace function laneway.count_seqs(p_seqs int8multirange) returns bigint
language sql immutable parallel safe set search_path = ''
return (select coalesce(sum(upper(r.range) - lower(r.range)), 0)::bigint from unnest(p_seqs) r (range));
