-- Return whether a segment is for messages of logged queues. Segments come in pairs: even ones are logged, odd ones
-- unlogged.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.is_logged(p_segment int) returns boolean
language sql immutable
as $$
  select p_segment % 2 = 0
$$;
