-- Return the lease tokens of a group's messages, by index from 0; none for messages that are not in flight.
-- Locks: none. Errors: none.
create or replace function laneway.find_lease_tokens(p_group_id int, p_lanes int[], p_seqs bigint[])
returns table (idx int, token uuid)
language sql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
  select u.n::int - 1, c.token
    from unnest(p_lanes, p_seqs) with ordinality u (lane_id, seq, n)
    join laneway.reader r
      on r.group_id = p_group_id
     and r.lane_id = u.lane_id
   cross join lateral laneway.find_claim(r.reader_id, u.seq) c
   where c.until > clock_timestamp();
$$;
