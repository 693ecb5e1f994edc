-- Notify waiting consumers of other processes when the caller's transaction commits, and return true. If another
-- transaction is about to notify, do nothing and return false: commits that notify wait for each other. The caller then
-- notifies after its commit.
-- p_payload: as laneway.engine.notices writes it.
-- Locks: one advisory lock per database, through commit; tried, never waited for. Errors: none.
create or replace function laneway.notify_at_commit(p_payload text) returns boolean
language plpgsql set search_path = '' as $$
begin
  if pg_catalog.pg_try_advisory_xact_lock('laneway.queue'::regclass::oid::int, 0) then
    perform pg_catalog.pg_notify('laneway_wake', p_payload);
    return true;
  end if;
  return false;
end $$;
