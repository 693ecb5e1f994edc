-- Delete every row that refers to the given readers, in all tables but reader. The caller has the readers' locks or has
-- deleted the readers, so no claim can start. A settlement or redrive in progress moves messages between these
-- tables: repeat until one snapshot shows all of them empty.
-- Locks: the rows. Errors: none.
create or replace function laneway.forget_readers(p_readers int[]) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
begin
  delete from laneway.progress where reader_id = any (p_readers);

  loop
    delete from laneway.dead_letter where reader_id = any (p_readers);
    delete from laneway.archive where reader_id = any (p_readers);
    perform laneway.clear_reader_state(p_readers);

    exit when not exists (select from laneway.dead_letter d where d.reader_id = any (p_readers))
          and not exists (select from laneway.archive a where a.reader_id = any (p_readers))
          and not exists (select from laneway.parked k where k.reader_id = any (p_readers))
          and not exists (select from laneway.claim c where c.reader_id = any (p_readers));
  end loop;

  delete from laneway.gap where reader_id = any (p_readers);
  delete from laneway.retry where reader_id = any (p_readers);
  delete from laneway.revision where reader_id = any (p_readers);
end $$;
