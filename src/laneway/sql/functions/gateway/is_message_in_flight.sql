-- Return whether a message of the gateway's queue is in flight: a consumer of the group default has a lease on it.
-- Locks: none. Errors: none.
create or replace function laneway.is_message_in_flight(p_lane_id int, p_seq bigint) returns boolean
language sql stable
set search_path = ''
as $$
  select exists (
    select
      from laneway.lane l
      join laneway.consumer_group g
        on g.queue_id = l.queue_id
       and g.name = 'default'
      join laneway.reader r
        on r.group_id = g.group_id
       and r.lane_id = l.lane_id
     cross join lateral laneway.find_claim(r.reader_id, p_seq) c
     where l.lane_id = p_lane_id
       and c.until > clock_timestamp());
$$;
