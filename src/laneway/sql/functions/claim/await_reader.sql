-- Waits until nobody else reads a reader's lane, for a claim that found only such; it then looks once more. Never with
-- readers' locks in hand that others may wait for: p_own says that there are some, and who has waited once has one.
-- Locks: the reader's advisory lock, through commit. Errors: LW503 there are locks in hand.
create or replace function laneway.await_reader(p_group_id int, p_reader_id int, p_own boolean) returns void
language plpgsql set search_path = '' as $$
begin
  if p_own or pg_catalog.current_setting('laneway.awaited', true) = 'on' then
    raise exception 'other claims hold readers of group %', p_group_id using errcode = 'LW503', hint = 'Nothing was claimed; call again.';
  end if;
  perform pg_catalog.set_config('laneway.awaited', 'on', true), pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, p_reader_id);
end $$;
