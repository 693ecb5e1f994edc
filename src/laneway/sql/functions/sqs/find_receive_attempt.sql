-- Return the messages that a receive with this attempt id returned, and when; no rows if the attempt is not stored.
-- Locks: none. Errors: none.
create or replace function laneway.find_receive_attempt(p_queue_id int, p_attempt text)
returns table (token uuid, segment int, lane_id int, seq bigint, received bigint)
language sql stable
set search_path = ''
as $$
  select u.token, u.segment, u.lane_id, u.seq, a.received
    from laneway.receive_attempt a
    cross join lateral unnest(a.tokens, a.segments, a.lanes, a.seqs) with ordinality u (token, segment, lane_id, seq, n)
   where a.queue_id = p_queue_id
     and a.attempt = p_attempt
     and a.expires_at > clock_timestamp()
   order by u.n;
$$;
