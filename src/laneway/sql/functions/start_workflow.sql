-- Begins a run of a workflow and pushes the message that drives it; a run that is there already is left as it is.
-- Answers whether it began. Locks: the run's row, then those of push_many. Errors: LW404 unknown queue; those of push_many.
create or replace function laneway.start_workflow(p_run_id text, p_name text, p_queue text, p_input json) returns boolean
language plpgsql set search_path = '' as $$
declare
  v_queue int := (select q.queue_id from laneway.queue q where q.name = p_queue);
begin
  if v_queue is null then
    raise exception 'queue "%" does not exist', p_queue using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  insert into laneway.workflow (run_id, name, queue_id, input) values (p_run_id, p_name, v_queue, p_input) on conflict do nothing;
  if not found then
    return false;
  end if;
  perform laneway.push_many(array[v_queue], array[json_build_object('workflow', p_name, 'run', p_run_id)], array[p_name]);
  return true;
end $$;
