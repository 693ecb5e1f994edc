-- Note results of calls at a target for its breaker. p_failures: calls that failed in a row since the last that
-- succeeded; p_succeeded: whether one succeeded before them. p_limit: that many failures in a row open the breaker, for
-- p_open_for. A success closes it.
-- Return the breaker's state, and whether this call opened or closed it.
-- Locks: the target's row. Errors: none.
create or replace function laneway.note_calls(
  p_target text, p_succeeded boolean, p_failures int, p_reason text, p_limit int, p_open_for interval)
returns table (failures int, is_open boolean, changed boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_target laneway.gateway_target;
begin
  insert into laneway.gateway_target (name) values (p_target) on conflict do nothing;
  select t.* into v_target
    from laneway.gateway_target t
   where t.name = p_target
     for update;
  failures := case when p_succeeded then 0 else v_target.failures end + p_failures;
  is_open := failures >= p_limit or (v_target.opened_at is not null and not p_succeeded);
  changed := is_open <> (v_target.opened_at is not null);
  update laneway.gateway_target t
     set failures = note_calls.failures,
         reason = coalesce(p_reason, t.reason),
         opened_at = case when is_open then coalesce(t.opened_at, clock_timestamp()) end,
         probe_at = case
           when not is_open then null
           when changed or p_failures > 0 then clock_timestamp() + p_open_for
           else t.probe_at end
   where t.name = p_target;
  return next;
end $$;
