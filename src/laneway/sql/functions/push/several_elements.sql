-- Return an array that has several elements, null for one of one: for events, see only_element.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.several_elements(p_values anyarray) returns anyarray
language sql immutable as $$
  select case when cardinality(p_values) > 1 then p_values end
$$;
