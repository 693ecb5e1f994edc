-- Has the caller's transaction wake waiters in other processes when it commits, unless another one is about to: commits
-- that notify wait for each other, so no two of them do at a time, and none ever waits here. Answers whether it will; where
-- not, the caller tells them apart, after its commit. p_payload: as laneway.engine.notices writes it.
-- Locks: one advisory lock for the database, through commit, never waited for. Errors: none.
create or replace function laneway.notify_at_commit(p_payload text) returns boolean
language plpgsql set search_path = '' as $$
begin
  if pg_catalog.pg_try_advisory_xact_lock('laneway.queue'::regclass::oid::int, 0) then
    perform pg_catalog.pg_notify('laneway_wake', p_payload);
    return true;
  end if;
  return false;
end $$;
