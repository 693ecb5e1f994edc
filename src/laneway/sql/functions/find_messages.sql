-- Messages of a group by their addresses, with the columns of the view messages. Locks: none. Errors: none.
create or replace function laneway.find_messages(p_group_id int, p_segments int[], p_lanes int[], p_seqs bigint[])
returns table (id text, queue_name text, group_name text, type text, payload json, headers json, priority smallint, status text, attempt_count smallint,
  max_attempts smallint, ack_timeout interval, lock_token uuid, locked_until timestamptz, consumer_id text, created_at timestamptz, dequeued_at timestamptz,
  acknowledged_at timestamptz, last_error text, payload_size int, available_at timestamptz, key text, queue_id int, group_id int, segment int, lane_id int, seq bigint)
language sql stable set search_path = '' as $$
  select m.* from unnest(p_segments, p_lanes, p_seqs) with ordinality u (segment, lane_id, seq, n)
   cross join lateral (select v.* from laneway.messages v where v.group_id = p_group_id and v.segment = u.segment and v.lane_id = u.lane_id and v.seq = u.seq) m
   order by u.n;
$$;
