-- Takes the locks under which messages in hand may be taken from their holders: the readers' advisory locks, in order of lane, so
-- that nobody is handed them meanwhile, then the claims' rows, in order of lane and token, as settlements do.
-- Locks: these. Errors: none.
create or replace function laneway.lock_claims(p_group_id int, p_lanes int[], p_seqs bigint[]) returns void
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, r.reader_id)
     from (select r.reader_id from laneway.reader r where r.group_id = p_group_id and r.lane_id = any (p_lanes) order by r.lane_id offset 0) r;
  perform from unnest(p_lanes, p_seqs) u (lane_id, seq)
     join laneway.reader r on r.group_id = p_group_id and r.lane_id = u.lane_id
     cross join lateral laneway.find_claim(r.reader_id, u.seq) h
     join laneway.claim c on c.token = h.token and c.lane_id = h.lane_id and c.part = h.part
    order by c.lane_id, c.token, c.part for update of c;
end $$;
