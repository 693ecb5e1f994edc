-- Delete a group, its readers and every row of theirs. With p_later, for more readers than can be locked at once, leave
-- those rows to sweep_forgotten. The caller has the queue's advisory lock, exclusive.
-- Locks: the readers' advisory locks, in order of lane, so that no claim is in progress; none with p_later. Errors:
-- none.
create or replace function laneway.forget_group(p_group_id int, p_later boolean) returns void
language plpgsql
set search_path = ''
as $$
declare
  v_readers int[] := array(
    select r.reader_id
      from laneway.reader r
     where r.group_id = p_group_id
     order by r.lane_id);
begin
  if p_later then
    insert into laneway.forgotten (reader_id)
    select r.reader_id from unnest(v_readers) r (reader_id);
  else
    perform laneway.lock_reader(r.reader_id)
       from unnest(v_readers) r (reader_id);
    perform laneway.forget_readers(v_readers);
  end if;
  delete from laneway.consumer_group where group_id = p_group_id;
end $$;
