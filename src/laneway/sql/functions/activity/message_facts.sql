-- Return what the log knows about messages: when they were pushed, their attempts and size and, up to p_largest bytes,
-- the body. A message that has left the log has no row. The arguments are parallel arrays.
-- Locks: none. Errors: none.
create or replace function laneway.message_facts(
  p_segments int[], p_lanes int[], p_seqs bigint[], p_largest int default 0)
returns table (
  message_segment int, lane_id int, seq bigint, type text, priority smallint, created_at timestamptz,
  max_attempts smallint, size int, body json)
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select u.segment, u.lane_id, u.seq, l.partition, l.priority, m.created_at, coalesce(m.max_attempts, q.max_attempts),
         m.size, case when m.size <= p_largest then m.body end
    from unnest(p_segments, p_lanes, p_seqs) u (segment, lane_id, seq)
    cross join lateral (
      select w.created_at, w.max_attempts, w.body, octet_length(w.body::text) as size
        from laneway.message w
       where w.segment = u.segment
         and w.lane_id = u.lane_id
         and w.seq = u.seq) m
    join laneway.lane l on l.lane_id = u.lane_id
    join laneway.queue q on q.queue_id = l.queue_id;
$$;
