-- Extend each lease to p_durations[i] from now. Zero ends it.
-- Return for each (index from 0) its expiry time and the number of lanes that it still covers; null and 0 if it had
-- ended.
-- Locks: the claims' rows, in order of lane, token and part.
-- Errors: LW422 the arrays differ in length, or a duration is null, negative or longer than 1000 years.
create or replace function laneway.extend_leases(p_leases uuid[], p_durations interval[])
returns table (idx int, until timestamptz, renewed int)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_token uuid;
  v_lanes int[];
begin
  if cardinality(p_durations) is distinct from cardinality(p_leases)
     or array_position(p_durations, null) is not null then
    raise exception 'leases and durations differ in number, or a duration is null' using errcode = 'LW422';
  end if;
  perform laneway.check_extension(p_durations);
  perform
     from laneway.claim c
    where c.token = any (array(
            select t.token
              from unnest(p_leases) l (lease)
             cross join lateral unnest(laneway.lease_tokens(l.lease)) t (token)))
    order by c.lane_id, c.token, c.part
      for update;
  for i in 1..coalesce(cardinality(p_leases), 0) loop
    idx := i - 1;
    v_lanes := '{}';
    foreach v_token in array laneway.lease_tokens(p_leases[i]) loop
      with extended as (
        update laneway.claim
           set until = v_now + p_durations[i]
         where token = v_token
           and (until > v_now) is true
        returning lane_id)
      select v_lanes || coalesce(array_agg(distinct e.lane_id), '{}')
        into v_lanes
        from extended e;
    end loop;
    renewed := (select count(distinct u.lane_id) from unnest(v_lanes) u (lane_id));
    until := case when renewed > 0 then v_now + p_durations[i] end;
    return next;
  end loop;
end $$;
