-- Start a run of a workflow and push the message that drives it. A run that exists already is left as it is.
-- p_delay: until the run begins; null for the queue's. Return whether this call started it.
-- Locks: the run's row, then those of push_many.
-- Errors: LW404 unknown queue, LW409 the id belongs to a run of another workflow; those of push_many.
create or replace function laneway.start_workflow(
  p_run_id text, p_name text, p_queue text, p_input json, p_priority smallint default 0, p_delay interval default null)
returns boolean
language plpgsql
set search_path = ''
as $$
declare
  v_name text;
  v_queue int := (select q.queue_id from laneway.queue q where q.name = p_queue);
begin
  if v_queue is null then
    raise exception 'queue "%" does not exist', p_queue
      using errcode = 'LW404',
            hint = 'Start a worker that has the workflow, which creates the queue, or create the queue.';
  end if;
  insert into laneway.workflow (run_id, name, queue_id, input, priority)
  values (p_run_id, p_name, v_queue, p_input, p_priority)
  on conflict do nothing;
  if not found then
    select w.name into v_name from laneway.workflow w where w.run_id = p_run_id;
    if v_name is distinct from p_name then
      raise exception 'run "%" belongs to workflow "%", not "%"', p_run_id, v_name, p_name
        using errcode = 'LW409', hint = 'Give the new run another id.';
    end if;
    return false;
  end if;
  update laneway.workflow w
     set driver = '/' || laneway.push_workflow_message(p_run_id, p_delay)
   where w.run_id = p_run_id;
  return true;
end $$;
