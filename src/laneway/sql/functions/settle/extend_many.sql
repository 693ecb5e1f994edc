-- Extend the leases of messages to p_leases[i] from now. Zero ends them.
-- If a claim contains more than the messages named, split it: these get parts of their own, under the same token.
-- p_seqs[i] null: all messages of the token in that lane.
-- Return each item's new deadline, by index from 0; null if the lease had ended.
-- Locks: the claims' rows, in order of lane, token and part.
-- Errors: LW422 the arrays differ in length, or a lease is null, negative or longer than 1000 years.
create or replace function laneway.extend_many(p_tokens uuid[], p_lanes int[], p_seqs bigint[], p_leases interval[])
returns table (idx int, until timestamptz)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_item record;
  v_only int8multirange;      -- the item's seq
  v_claim laneway.claim;
begin
  if cardinality(p_lanes) is distinct from cardinality(p_tokens)
     or cardinality(p_leases) is distinct from cardinality(p_tokens)
     or array_position(p_leases, null) is not null then
    raise exception 'tokens, lanes and leases differ in number, or a lease is null' using errcode = 'LW422';
  end if;
  perform laneway.check_extension(p_leases);

  -- Lock all claims in order before the first is changed.
  if cardinality(p_tokens) > 1 then
    perform
       from (select distinct u.lane_id, u.token
               from unnest(p_tokens, p_lanes) u (token, lane_id)
              order by u.lane_id, u.token) i
      cross join lateral (
        select
          from laneway.claim o
         where o.token = i.token
           and o.lane_id = i.lane_id
         order by o.part
           for update) c;
  end if;
  for v_item in
    select u.token, u.lane_id, u.seq, u.n, u.lease
      from unnest(p_tokens, p_lanes, p_seqs, p_leases) with ordinality u (token, lane_id, seq, lease, n)
     order by u.lane_id, u.token, u.seq
  loop
    idx := v_item.n - 1;
    until := null;
    for v_claim in
      select c.*
        from laneway.claim c
       where c.token = v_item.token
         and c.lane_id = v_item.lane_id
         and (c.until > v_now) is true
         and (v_item.seq is null or c.pending @> v_item.seq)
         for update
    loop
      until := v_now + v_item.lease;
      v_only := int8multirange(int8range(v_item.seq, v_item.seq, '[]'));
      if v_item.seq is null or v_claim.pending = v_only then
        update laneway.claim
           set until = v_now + v_item.lease
         where token = v_claim.token
           and lane_id = v_claim.lane_id
           and part = v_claim.part;
      else
        update laneway.claim
           set pending = pending - v_only
         where token = v_claim.token
           and lane_id = v_claim.lane_id
           and part = v_claim.part;
        loop
          v_claim.part := nextval('laneway.claim_part');
          exit when not exists (
            select
              from laneway.claim c
             where c.token = v_claim.token
               and c.lane_id = v_claim.lane_id
               and c.part = v_claim.part);
        end loop;
        v_claim.pending := v_only;
        v_claim.first_seq := v_item.seq;
        v_claim.last_seq := v_item.seq;
        v_claim.until := until;
        insert into laneway.claim select v_claim.*;
      end if;
    end loop;
    return next;
  end loop;
end $$;
