-- An array of one element that stands for all, as one with an element for each of them; others as they are.
-- Locks: none. Errors: none.
create or replace function laneway.repeat_to_length(p_values anyarray, p_count int) returns anyarray
language sql immutable set search_path = '' as $$
  select case when cardinality(p_values) = 1 then array_fill(p_values[1], array[p_count]) else p_values end;
$$;
