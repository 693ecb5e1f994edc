-- Lock a reader's place in its lane until commit. Return false if another transaction has the lock; never wait for it.
-- PostgreSQL inlines this function (see newest_progress). Locks: the reader's advisory lock. Errors: none.
create or replace function laneway.try_lock_reader(p_reader_id int) returns boolean
language sql volatile as $$
  select pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, p_reader_id)
$$;
