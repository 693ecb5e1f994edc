-- Return an event's kind, which is more specific than its action. A message that is dead because its lease expired is
-- 'timed_out' instead of 'dead'; one of several that were deleted together is 'deleted_many'; a purge of one state is
-- 'cleared'. The body is bound when the function is created, so it needs no search_path and PostgreSQL inlines it.
-- Locks: none. Errors: none.
create or replace function laneway.event_kind(p_action text, p_detail json) returns text
language sql immutable parallel safe
return case
  when p_action = 'dead' and p_detail ->> 'until' is not null then 'timed_out'
  when p_action = 'deleted' and (p_detail ->> 'of')::int > 1 then 'deleted_many'
  when p_action = 'purged' and p_detail ->> 'status' is not null then 'cleared'
  else p_action end;
