-- Push a message that drives a running workflow run, unless its driver's is still queued or in flight.
-- Locks: those of push_many; the caller has the run's row.
-- Errors: LW409 the run's queue was deleted; those of push_many.
create or replace function laneway.drive_again(p_run_id text) returns void
language plpgsql
set search_path = ''
as $$
declare
  v_driver text := (select w.driver from laneway.workflow w where w.run_id = p_run_id);
begin
  if v_driver is not null and laneway.has_live_driver(v_driver) then
    return;
  end if;
  begin
    update laneway.workflow w
       set driver = '/' || laneway.push_workflow_message(p_run_id)
     where w.run_id = p_run_id;
  exception when sqlstate 'LW404' then
    raise exception 'the queue of workflow run "%" was deleted, so it cannot resume', p_run_id
      using errcode = 'LW409', hint = 'Start another run.';
  end;
end $$;
