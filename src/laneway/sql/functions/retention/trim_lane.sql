-- Delete messages of a lane from the log: those pushed before p_kept_since that come before every message that a reader
-- still needs and, with p_wait_for_lake, that the lake has. Return how many. The caller has the readers' locks. p_base:
-- the lane's base.
-- Locks: the lane's row. Errors: none.
create or replace function laneway.trim_lane(
  p_lane_id int, p_base bigint, p_logged boolean, p_kept_since timestamptz, p_wait_for_lake boolean)
returns bigint
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_last bigint;
  v_rows bigint;
begin
  -- Settled by every group.
  select min(least(laneway.reader_seq(r.reader_id), c.seq, k.seq)) into v_last
    from laneway.reader r
    left join lateral (
      select min(lower(c.pending)) - 1 as seq
        from laneway.claim c
       where c.reader_id = r.reader_id) c on true
    left join lateral (
      select min(k.seq) - 1 as seq
        from laneway.parked k
       where k.reader_id = r.reader_id) k on true
   where r.lane_id = p_lane_id;
  -- Old enough.
  v_last := least(v_last, laneway.seq_before(p_lane_id, p_logged, p_kept_since));
  -- In the lake.
  if p_wait_for_lake then
    v_last := least(v_last, (
      select min(m.seq) - 1
        from laneway.segment s
        cross join lateral (
          select o.seq
            from laneway.message o
           where o.segment = s.segment
             and o.lane_id = p_lane_id
           order by o.seq
           limit 1) m
       where not exists (select from laneway.offloaded o where o.segment = s.segment)));
  end if;

  if (v_last > p_base) is not true then
    return 0;
  end if;
  delete from laneway.message where lane_id = p_lane_id and seq <= v_last;
  get diagnostics v_rows = row_count;
  perform laneway.advance_lane_base(p_lane_id, v_last);
  return v_rows;
end $$;
