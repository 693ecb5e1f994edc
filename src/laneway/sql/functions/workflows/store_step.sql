-- Store a step's result, its failure, or a timer's due time, once. A stored one stays, except a failure that was
-- retried.
-- Return what is stored, the run's status, and how long a timer still has to run. Status 'superseded': the caller does
-- not drive the run, and nothing is stored or returned.
-- Locks: the run's row, shared; the step's. Errors: LW404 no such run.
create or replace function laneway.store_step(
  p_run_id text, p_driver text, p_step text, p_result json default null, p_timer interval default null,
  p_failure json default null)
returns table (status text, result json, remaining interval, failure json)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_driver text;
begin
  select w.status, w.driver into status, v_driver
    from laneway.workflow w
   where w.run_id = p_run_id
     for share;
  if not found then
    perform laneway.raise_unknown_workflow(p_run_id);
  end if;
  -- Before the run's message is claimed, its driver is "/id", which is no caller's.
  if v_driver is distinct from p_driver or p_driver like '/%' then
    status := 'superseded';
    return next;
    return;
  end if;
  insert into laneway.workflow_step as s (run_id, step, result, due_at, failure)
  values (p_run_id, p_step, p_result, clock_timestamp() + p_timer, p_failure)
  on conflict (run_id, step) do update
     set result = excluded.result, failure = excluded.failure, finished_at = excluded.finished_at
   where s.failure is not null;
  select s.result,
         case when s.due_at is not null then greatest(s.due_at - clock_timestamp(), interval '0') end,
         s.failure
    into result, remaining, failure
    from laneway.workflow_step s
   where s.run_id = p_run_id
     and s.step = p_step;
  return next;
end $$;
