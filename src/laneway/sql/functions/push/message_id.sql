-- Return a message's public id: its address in the log. Locks: none. Errors: none.
create or replace function laneway.message_id(p_segment int, p_lane_id int, p_seq bigint) returns text
language sql immutable parallel safe
return p_segment || '-' || p_lane_id || '-' || p_seq;
