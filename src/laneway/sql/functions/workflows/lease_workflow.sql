-- Make p_driver ("token/id" of the run's message) the driver of a running workflow run. If the run is not running, it
-- has no driver, and resuming it pushes another message. A paused run whose time to resume has come is resumed.
-- p_again: the driver asks once more.
-- Return the run's status and arguments. Status 'superseded', with nothing changed: the token does not lease the run's
-- message, another message drives the run or, with p_again, another driver does.
-- Locks: the run's row. Errors: LW404 no such run.
create or replace function laneway.lease_workflow(p_run_id text, p_driver text, p_again boolean default false)
returns table (status text, input json)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_driver text;
  v_resume_at timestamptz;
begin
  select w.status, w.input, w.driver, w.resume_at into status, input, v_driver, v_resume_at
    from laneway.workflow w
   where w.run_id = p_run_id
     for no key update;
  if not found then
    perform laneway.raise_unknown_workflow(p_run_id);
  end if;
  if not laneway.is_driver_leased(p_run_id, p_driver) then
    status := 'superseded';
    input := 'null';
    return next;
    return;
  end if;
  if status = 'paused' and v_resume_at <= clock_timestamp() then
    status := 'running';
    update laneway.workflow w set status = 'running', resume_at = null where w.run_id = p_run_id;
  end if;
  if p_again and v_driver is distinct from p_driver
     or not p_again
        and split_part(v_driver, '/', 2) <> split_part(p_driver, '/', 2)
        and laneway.has_live_driver(v_driver) then
    status := 'superseded';
  else
    update laneway.workflow w
       set driver = case when w.status = 'running' then p_driver end
     where w.run_id = p_run_id;
  end if;
  return next;
end $$;
