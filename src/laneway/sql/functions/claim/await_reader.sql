-- Wait until no other transaction claims from a reader's lane. A claim that found only such lanes calls it, then looks
-- once more.
-- p_owns_lock: the transaction has locked readers that others may wait for. It must then not wait: two such
-- transactions could wait for each other. One that has waited has such a lock.
-- Locks: the reader's advisory lock, until commit. Errors: LW503 the transaction has locked readers.
create or replace function laneway.await_reader(p_group_id int, p_reader_id int, p_owns_lock boolean) returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_owns_lock or pg_catalog.current_setting('laneway.awaited', true) = 'on' then
    raise exception 'other claims have locked readers of group %', p_group_id
      using errcode = 'LW503', hint = 'Nothing was claimed; call again.';
  end if;
  perform pg_catalog.set_config('laneway.awaited', 'on', true),
          laneway.lock_reader(p_reader_id);
end $$;
