-- Return when messages of a group were first claimed, as far as that is recorded. idx: the message's place in the
-- arrays, from 0.
-- Locks: none. Errors: none.
create or replace function laneway.first_claim_times(p_group_id int, p_lanes int[], p_seqs bigint[])
returns table (idx int, at timestamptz)
language sql stable
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
as $$
  select u.n::int - 1, h.at
    from unnest(p_lanes, p_seqs) with ordinality u (lane_id, seq, n)
    cross join lateral (
      select min(e.at) as at
        from laneway.message_history(u.lane_id, u.seq) e
       where e.action = 'claimed'
         and e.group_id = p_group_id) h
   where h.at is not null;
$$;
