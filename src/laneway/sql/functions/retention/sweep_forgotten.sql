-- Delete the rows of readers whose group was deleted, of at most p_limit readers. Return how many readers.
-- Locks: the readers' advisory locks, never waiting for one. Errors: none.
create or replace function laneway.sweep_forgotten(p_limit int default 1000) returns int
language plpgsql
set search_path = ''
as $$
declare
  v_readers int[];
begin
  v_readers := array(
    select f.reader_id
      from (select f.reader_id
              from laneway.forgotten f
             order by f.reader_id
             limit greatest(p_limit, 0)
               for update skip locked) f
     where laneway.try_lock_reader(f.reader_id));
  perform laneway.forget_readers(v_readers);
  delete from laneway.forgotten where reader_id = any (v_readers);
  return cardinality(v_readers);
end $$;
