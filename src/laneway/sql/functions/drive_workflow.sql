-- Makes p_driver the one who drives a run, if it is running; answers its status and its arguments.
-- Locks: the run's row. Errors: LW404 no such run.
create or replace function laneway.drive_workflow(p_run_id text, p_driver text) returns table (status text, input json)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  return query update laneway.workflow w set driver = case when w.status = 'running' then p_driver else w.driver end where w.run_id = p_run_id returning w.status, w.input;
  if not found then
    raise exception 'workflow run "%" does not exist', p_run_id using errcode = 'LW404', hint = 'It was never started, or it was purged.';
  end if;
end $$;
