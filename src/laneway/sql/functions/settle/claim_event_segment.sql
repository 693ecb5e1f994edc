-- Return the segment for the event that ends a claim: that of its messages' events, or the newest one for a claim of
-- parked messages (p_aside), whose own segment may have been dropped.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.claim_event_segment(p_segment int, p_aside boolean) returns int
language sql stable as $$
  select case when p_aside then laneway.current_segment(true) else laneway.event_segment(p_segment) end
$$;
