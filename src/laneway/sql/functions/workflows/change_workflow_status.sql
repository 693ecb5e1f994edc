-- Change the status of a workflow run to p_to, with its result or error, if it is one of p_from and, with p_driver, if
-- that driver still leases the run. Return the status before.
-- A run that becomes 'running' gets a new driving message, unless its message is still queued or in flight. A driver
-- that ends the run drives it no longer. If a failed run is resumed, the failures of its steps are deleted, so that
-- they are retried.
-- p_resume_after: a run that becomes 'paused' resumes after this time, unless it is resumed before.
-- Locks: the run's row, then those of push_many.
-- Errors: LW404 no such run, LW409 it cannot resume because its queue was deleted.
create or replace function laneway.change_workflow_status(
  p_run_id text, p_from text[], p_to text, p_result json default null, p_error text default null,
  p_driver text default null, p_resume_after interval default null)
returns text
language plpgsql
set search_path = ''
as $$
declare
  v_run laneway.workflow;
begin
  select w.* into v_run
    from laneway.workflow w
   where w.run_id = p_run_id
     for update;
  if not found then
    perform laneway.raise_unknown_workflow(p_run_id);
  end if;
  if v_run.status = any (p_from) and (p_driver is null or p_driver = v_run.driver and p_driver not like '/%') then
    update laneway.workflow w
       set status = p_to,
           result = p_result,
           error = p_error,
           finished_at = case when p_to in ('completed', 'failed', 'cancelled') then clock_timestamp() end,
           resume_at = case when p_to = 'paused' then clock_timestamp() + p_resume_after end,
           driver = case when p_driver is null then w.driver end
     where w.run_id = p_run_id;
    if v_run.status = 'failed' then
      delete from laneway.workflow_step s where s.run_id = p_run_id and s.failure is not null;
    end if;
    if p_to = 'running' then
      perform laneway.drive_again(p_run_id);
    elsif p_to = 'paused' and p_resume_after is not null then
      -- Not the run's driver: a worker that is running a step of it may still store the result.
      perform laneway.push_workflow_message(p_run_id, p_resume_after);
    end if;
  end if;
  return v_run.status;
end $$;
