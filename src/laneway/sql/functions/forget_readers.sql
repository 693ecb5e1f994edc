-- Removes every row that readers have anywhere; their own rows are gone already. The caller holds their locks, so that
-- nobody reads on in their lanes. Locks: none of its own. Errors: none.
create or replace function laneway.forget_readers(p_readers int[]) returns void
language plpgsql set search_path = '' set enable_seqscan = off as $$
begin
  delete from laneway.progress where reader_id = any (p_readers);
  -- Who replays, claims or gives back right now is waited for: dead letters are parked, and what is parked and what is claimed
  -- goes from one to the other, until it is in neither.
  delete from laneway.dead_letter where reader_id = any (p_readers);
  delete from laneway.archive where reader_id = any (p_readers);
  loop
    delete from laneway.parked where reader_id = any (p_readers);
    delete from laneway.claim where reader_id = any (p_readers);
    exit when not exists (select from laneway.parked k where k.reader_id = any (p_readers)) and not exists (select from laneway.claim c where c.reader_id = any (p_readers));
  end loop;
  delete from laneway.gap where reader_id = any (p_readers);
  delete from laneway.retry where reader_id = any (p_readers);
  delete from laneway.revision where reader_id = any (p_readers);
end $$;
