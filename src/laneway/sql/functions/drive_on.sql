-- Pushes the message that drives a run, in the partition of its workflow. It has attempts of its own, as many as there can be: a
-- run whose workers die goes on, however few its queue allows. Locks: those of push_many. Errors: those of push_many.
create or replace function laneway.drive_on(p_run_id text) returns void
language plpgsql set search_path = '' as $$
begin
  perform laneway.push_many(array[w.queue_id], array[json_build_object('workflow', w.name, 'run', w.run_id)], array[w.name], p_max_attempts => array[32767::smallint])
     from laneway.workflow w where w.run_id = p_run_id;
end $$;
