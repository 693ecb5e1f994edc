-- Lock messages in flight before somebody else than their consumers ends the leases: first the readers, so that no
-- message is claimed meanwhile, then the claims' rows, in the order in which settlements lock them.
-- Locks: the readers' advisory locks, in order of lane; the claims' rows, in order of lane, token and part. Errors:
-- none.
create or replace function laneway.lock_claims(p_group_id int, p_lanes int[], p_seqs bigint[]) returns void
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
  perform laneway.lock_reader(r.reader_id)
     from (select o.reader_id
             from laneway.reader o
            where o.group_id = p_group_id
              and o.lane_id = any (p_lanes)
            order by o.lane_id
           offset 0) r;
  perform
     from unnest(p_lanes, p_seqs) u (lane_id, seq)
     join laneway.reader r
       on r.group_id = p_group_id
      and r.lane_id = u.lane_id
    cross join lateral laneway.find_claim(r.reader_id, u.seq) f
     join laneway.claim c
       on c.token = f.token
      and c.lane_id = f.lane_id
      and c.part = f.part
    order by c.lane_id, c.token, c.part
      for update of c;
end $$;
