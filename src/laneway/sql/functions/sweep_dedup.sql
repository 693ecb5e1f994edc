-- Forgets keys whose window has passed, at most p_limit. Answers how many. Locks: their rows. Errors: none.
create or replace function laneway.sweep_dedup(p_limit int default 10000) returns int
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_now timestamptz := clock_timestamp();
  v_count int;
begin
  delete from laneway.dedup_key where ctid = any (array(
    select k.ctid from laneway.dedup_key k where k.expires_at <= v_now order by k.expires_at limit greatest(p_limit, 0) for update skip locked));
  get diagnostics v_count = row_count;
  return v_count;
end $$;
