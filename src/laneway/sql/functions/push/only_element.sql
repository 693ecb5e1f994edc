-- Return the element of an array of one, null for any other array: for events, which name one lane or claim in columns
-- and several in arrays. See several_elements.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.only_element(p_values anyarray) returns anyelement
language sql immutable as $$
  select case when cardinality(p_values) = 1 then p_values[1] end
$$;
