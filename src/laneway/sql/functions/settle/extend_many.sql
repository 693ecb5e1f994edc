-- Sets the deadline of messages in hand to p_leases[i] from now; zero ends it at once. A claim that holds more
-- than the messages meant is split; the token stays. Answers each item's new deadline, null where the claim
-- does not hold it in time. p_seqs[i] null: all that the token holds in that lane.
-- Locks: the claims' rows, in order of lane, token and part. Errors: LW422 arrays that do not fit, a time below zero, or of more than 1000 years.
create or replace function laneway.extend_many(p_tokens uuid[], p_lanes int[], p_seqs bigint[], p_leases interval[]) returns table (idx int, until timestamptz)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_item record;
  v_claim laneway.claim;
begin
  if cardinality(p_lanes) is distinct from cardinality(p_tokens) or cardinality(p_leases) is distinct from cardinality(p_tokens) or array_position(p_leases, null) is not null then
    raise exception 'tokens, lanes and leases must be as many, and no lease null' using errcode = 'LW422';
  end if;
  if interval '0' > any (p_leases) then
    raise exception 'a lock cannot last for a time below zero' using errcode = 'LW422', hint = 'Zero ends it.';
  end if;
  if laneway.exceeds_interval_limit(p_leases) then
    perform laneway.raise_long_interval(p_leases);
  end if;
  if cardinality(p_tokens) > 1 then
    perform from (select distinct u.lane_id, u.token from unnest(p_tokens, p_lanes) u (token, lane_id) order by 1, 2) u
       cross join lateral (select from laneway.claim c where c.token = u.token and c.lane_id = u.lane_id order by c.part for update) c;
  end if;
  for v_item in
    select u.token, u.lane_id, u.seq, u.n, u.lease from unnest(p_tokens, p_lanes, p_seqs, p_leases) with ordinality u (token, lane_id, seq, lease, n)
     order by u.lane_id, u.token, u.seq
  loop
    idx := v_item.n - 1;
    until := null;
    for v_claim in
      select c.* from laneway.claim c where c.token = v_item.token and c.lane_id = v_item.lane_id and (c.until > v_now) is true
         and (v_item.seq is null or c.pending @> v_item.seq) for update
    loop
      until := v_now + v_item.lease;
      if v_item.seq is null or v_claim.pending = int8multirange(int8range(v_item.seq, v_item.seq, '[]')) then
        update laneway.claim set until = v_now + v_item.lease where token = v_claim.token and lane_id = v_claim.lane_id and part = v_claim.part;
      else
        update laneway.claim set pending = pending - int8multirange(int8range(v_item.seq, v_item.seq, '[]')) where token = v_claim.token and lane_id = v_claim.lane_id and part = v_claim.part;
        loop
          v_claim.part := nextval('laneway.claim_part');
          exit when not exists (select from laneway.claim c where c.token = v_claim.token and c.lane_id = v_claim.lane_id and c.part = v_claim.part);
        end loop;
        v_claim.pending := int8multirange(int8range(v_item.seq, v_item.seq, '[]'));
        v_claim.first_seq := v_item.seq; v_claim.last_seq := v_item.seq; v_claim.until := until;
        insert into laneway.claim select v_claim.*;
      end if;
    end loop;
    return next;
  end loop;
end $$;
