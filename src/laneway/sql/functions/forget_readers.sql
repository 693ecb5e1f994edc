-- Removes every row that readers have anywhere; their own rows are gone already. The caller holds their locks, so that
-- nobody reads on in their lanes. Locks: none of its own. Errors: none.
create or replace function laneway.forget_readers(p_readers int[]) returns void
language plpgsql set search_path = '' set enable_seqscan = off as $$
begin
  delete from laneway.progress where reader_id = any (p_readers);
  -- Who replays right now is waited for: what was dead is parked next.
  delete from laneway.dead_letter where reader_id = any (p_readers);
  delete from laneway.archive where reader_id = any (p_readers);
  perform laneway.drop_hands(p_readers);
  delete from laneway.gap where reader_id = any (p_readers);
  delete from laneway.retry where reader_id = any (p_readers);
  delete from laneway.revision where reader_id = any (p_readers);
end $$;
