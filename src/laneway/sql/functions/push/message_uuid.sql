-- Return a message's address as a UUID of the same bits. Locks: none. Errors: none.
create or replace function laneway.message_uuid(p_segment int, p_lane_id int, p_seq bigint) returns uuid
language sql immutable parallel safe
return (lpad(to_hex(p_segment), 8, '0') || lpad(to_hex(p_lane_id), 8, '0') || lpad(to_hex(p_seq), 16, '0'))::uuid;
