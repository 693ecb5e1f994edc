-- Return an array of one element with that element p_count times, any other array as it is.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.repeat_to_length(p_values anyarray, p_count int) returns anyarray
language sql immutable as $$
  select case
           when cardinality(p_values) = 1 and p_count <> 1 then array_fill(p_values[1], array[p_count])
           else p_values
         end
$$;
