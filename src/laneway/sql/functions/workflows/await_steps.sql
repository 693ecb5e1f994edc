-- Declare that a run waits for one of these steps to be completed from outside: it has no driver from now on, and
-- complete_step pushes a message that drives it again.
-- Return 'waiting', or the run's status with nothing changed: 'running' if one of the steps is completed already,
-- 'superseded' if the caller does not drive the run.
-- Locks: the run's row. Errors: LW404 no such run.
create or replace function laneway.await_steps(p_run_id text, p_driver text, p_steps text[]) returns text
language plpgsql
set search_path = ''
as $$
declare
  v_run record;
begin
  select w.status, w.driver into v_run
    from laneway.workflow w
   where w.run_id = p_run_id
     for no key update;
  if not found then
    perform laneway.raise_unknown_workflow(p_run_id);
  end if;
  if v_run.driver is distinct from p_driver or p_driver like '/%' then
    return 'superseded';
  elsif v_run.status <> 'running' or exists (
    select from laneway.workflow_step s where s.run_id = p_run_id and s.step = any (p_steps)) then
    return v_run.status;
  end if;
  update laneway.workflow w set driver = null where w.run_id = p_run_id;
  return 'waiting';
end $$;
