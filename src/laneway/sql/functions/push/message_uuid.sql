-- Return a message's address as a version 4 UUID: 32 bits of the segment, 31 of the lane, 59 of the seq. A seq that
-- needs more bits gives a UUID of the same bits as the address, which has another variant. Locks: none. Errors: none.
create or replace function laneway.message_uuid(p_segment int, p_lane_id int, p_seq bigint) returns uuid
language sql immutable parallel safe
return (
  case when (p_seq >> 59) = 0
       then lpad(to_hex(p_segment), 8, '0')
            || lpad(to_hex(p_lane_id >> 15), 4, '0')
            || '4' || lpad(to_hex((p_lane_id >> 3) & 4095), 3, '0')
            || to_hex(32768 | ((p_lane_id & 7) << 11) | (p_seq >> 48)::int)
            || lpad(to_hex(p_seq & 281474976710655), 12, '0')
       else lpad(to_hex(p_segment), 8, '0') || lpad(to_hex(p_lane_id), 8, '0') || lpad(to_hex(p_seq), 16, '0')
  end)::uuid;
