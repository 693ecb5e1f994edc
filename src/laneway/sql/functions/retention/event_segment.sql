-- Return the segment that has the events of a segment's messages: the logged one of its pair.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.event_segment(p_segment int) returns int
language sql immutable
as $$
  select p_segment - p_segment % 2
$$;
