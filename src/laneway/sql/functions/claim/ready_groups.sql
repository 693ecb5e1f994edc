-- Return which of some groups may have something to claim now. Of a group with more than 1000 ready lanes it is
-- assumed.
-- Locks: none. Errors: none.
create or replace function laneway.ready_groups(p_group_ids int[]) returns setof int
language sql stable
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
  select g.group_id
    from unnest(p_group_ids) g (group_id)
   where exists (
           select
             from (select r.reader_id, r.lane_id
                     from laneway.reader r
                    where r.group_id = g.group_id
                      and r.ready
                    order by r.priority desc, r.reader_id
                    limit 1000) r
             cross join lateral laneway.newest_progress(r.reader_id) p
            -- `offset 0`: probe reader by reader; as a join it would read the whole log.
            where exists (
                    select
                      from laneway.message m
                     where m.segment >= p.segment
                       and m.lane_id = r.lane_id
                       and m.seq > p.seq
                    offset 0))
      or (select count(*)
            from (select
                    from laneway.reader r
                   where r.group_id = g.group_id
                     and r.ready
                   limit 1001) r) > 1000
      or exists (
           select
             from laneway.parked k
            where k.group_id = g.group_id
              and k.available_at <= clock_timestamp());
$$;
