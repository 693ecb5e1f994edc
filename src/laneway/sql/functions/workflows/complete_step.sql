-- Store the result of a step from outside of the run, once, and have the run continue if it waits for the step.
-- Return the run's status, and whether this call stored the result: not if the step was completed before, or if the run
-- has ended.
-- Locks: the run's row, then those of push_many.
-- Errors: LW404 no such run, LW409 its queue was deleted; those of push_many.
create or replace function laneway.complete_step(p_run_id text, p_step text, p_result json)
returns table (status text, stored boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  select w.status into status
    from laneway.workflow w
   where w.run_id = p_run_id
     for no key update;
  if not found then
    perform laneway.raise_unknown_workflow(p_run_id);
  end if;
  stored := false;
  if status in ('running', 'paused') then
    insert into laneway.workflow_step (run_id, step, result)
    values (p_run_id, p_step, p_result)
    on conflict do nothing;
    stored := found;
  end if;
  if stored and status = 'running' then
    perform laneway.drive_again(p_run_id);
  end if;
  return next;
end $$;
