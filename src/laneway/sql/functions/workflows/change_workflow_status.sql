-- Brings a run from one of the states p_from to p_to, with its result or error. A run that goes on is pushed again, unless its message is
-- in hand or still to come: then it goes on with that. Answers the state it was in: where that is not one of p_from, or
-- p_driver is given and drives it no more, nothing changed; a driver who ends the run drives it no more. Of a run that
-- fails, steps' failures are kept no more: they are tried again if it is resumed.
-- Locks: the run's row, then those of push_many. Errors: LW404 no such run, LW409 it cannot go on, for its queue was deleted.
create or replace function laneway.change_workflow_status(p_run_id text, p_from text[], p_to text, p_result json default null, p_error text default null, p_driver text default null) returns text
language plpgsql set search_path = '' as $$
declare
  v_run laneway.workflow;
begin
  select w.* into v_run from laneway.workflow w where w.run_id = p_run_id for update;
  if not found then
    raise exception 'workflow run "%" does not exist', p_run_id using errcode = 'LW404', hint = 'It was never started, or it was purged.';
  end if;
  if v_run.status = any (p_from) and (p_driver is null or p_driver = v_run.driver and p_driver not like '/%') then
    update laneway.workflow w set status = p_to, result = p_result, error = p_error, finished_at = case when p_to in ('completed', 'failed', 'cancelled') then clock_timestamp() end,
           driver = case when p_driver is null then w.driver end
     where w.run_id = p_run_id;
    delete from laneway.workflow_step s where s.run_id = p_run_id and s.failure is not null and p_to = 'failed';
    if p_to = 'running' and (v_run.driver is null or not laneway.has_live_driver(v_run.driver)) then
      begin
        perform laneway.push_workflow_message(p_run_id);
      exception when sqlstate 'LW404' then
        raise exception 'the queue of workflow run "%" was deleted, so it cannot go on', p_run_id using errcode = 'LW409', hint = 'Start another run.';
      end;
    end if;
  end if;
  return v_run.status;
end $$;
