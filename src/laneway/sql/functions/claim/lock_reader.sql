-- Lock a reader's place in its lane until commit; wait for another transaction that has the lock.
-- PostgreSQL inlines this function (see newest_progress). Locks: the reader's advisory lock. Errors: none.
create or replace function laneway.lock_reader(p_reader_id int) returns void
language sql volatile as $$
  select pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, p_reader_id)
$$;
