-- What an event was, more closely than its action: an expired claim's message that died of it is 'timed_out', not
-- 'dead'; one of several deleted together is 'deleted_many'; a purge of one state is 'cleared'.
-- Its body is bound when it is made, so that it needs no search_path of its own and is taken up into what calls it.
-- Locks: none. Errors: none.
create or replace function laneway.event_kind(p_action text, p_detail json) returns text
language sql immutable parallel safe
return case
  when p_action = 'dead' and p_detail ->> 'until' is not null then 'timed_out'
  when p_action = 'deleted' and (p_detail ->> 'of')::int > 1 then 'deleted_many'
  when p_action = 'purged' and p_detail ->> 'status' is not null then 'cleared'
  else p_action end;
