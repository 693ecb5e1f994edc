-- Removes every row that a group's readers have anywhere, and the group. The caller holds the queue's lock.
-- Locks: the readers' advisory locks, in order of reader, so that no claim is under way. Errors: none.
create or replace function laneway.forget_group(p_group_id int) returns void
language plpgsql set search_path = '' as $$
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, r.reader_id)
     from (select r.reader_id from laneway.reader r where r.group_id = p_group_id order by r.reader_id offset 0) r;
  delete from laneway.claim c using laneway.reader r where r.group_id = p_group_id and c.reader_id = r.reader_id;
  delete from laneway.parked where group_id = p_group_id;
  delete from laneway.gap g using laneway.reader r where r.group_id = p_group_id and g.reader_id = r.reader_id;
  delete from laneway.retry t using laneway.reader r where r.group_id = p_group_id and t.reader_id = r.reader_id;
  delete from laneway.revision v using laneway.reader r where r.group_id = p_group_id and v.reader_id = r.reader_id;
  delete from laneway.dead_letter where group_id = p_group_id;
  delete from laneway.archive where group_id = p_group_id;
  delete from laneway.progress p using laneway.reader r where r.group_id = p_group_id and p.reader_id = r.reader_id;
  delete from laneway.consumer_group where group_id = p_group_id;
end $$;
