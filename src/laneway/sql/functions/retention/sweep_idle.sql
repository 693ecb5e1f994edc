-- Mark readers idle that have had nothing to read for p_after. Look at p_limit readers at most, from a random one on.
-- Return how many were marked. Locks: readers' and lanes' advisory locks, never waiting for one. Errors: none.
create or replace function laneway.sweep_idle(p_limit int default 1000, p_after interval default '5 seconds')
returns int
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_reader record;
  v_count int := 0;
  v_pivot int := floor(random() * coalesce((select max(r.reader_id) from laneway.reader r), 0))::int;
begin
  for v_reader in
    (select r.reader_id, r.lane_id
       from laneway.reader r
      where r.ready
        and r.reader_id >= v_pivot
      order by r.reader_id
      limit greatest(p_limit, 0))
    union all
    (select r.reader_id, r.lane_id
       from laneway.reader r
      where r.ready
        and r.reader_id < v_pivot
      order by r.reader_id
      limit greatest(p_limit, 0))
    limit greatest(p_limit, 0)
  loop
    continue when (
      select clock_timestamp() - p.moved_at < p_after
        from laneway.newest_progress(v_reader.reader_id) p);
    continue when not laneway.try_lock_reader(v_reader.reader_id);
    if laneway.mark_reader_idle(v_reader.reader_id, v_reader.lane_id) then
      v_count := v_count + 1;
    end if;
  end loop;
  return v_count;
end $$;
