-- Return the last message that a reader has claimed. In a from clause, call newest_progress instead: it costs less.
-- Locks: none. Errors: none.
create or replace function laneway.reader_seq(p_reader_id int) returns bigint
language plpgsql stable
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  return (select p.seq from laneway.newest_progress(p_reader_id) p);
end $$;
