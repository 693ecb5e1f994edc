-- How far a reader has handed out. Locks: none. Errors: none.
create or replace function laneway.reader_seq(p_reader_id int) returns bigint
language plpgsql stable set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  return (select p.seq from laneway.progress p where p.reader_id = p_reader_id order by p.step desc limit 1);
end $$;
