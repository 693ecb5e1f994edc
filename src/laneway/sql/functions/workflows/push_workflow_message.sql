-- Push the message that drives a workflow run, in the partition of its workflow, and make it the run's only driving
-- message. It has the highest number of attempts there is, so that a run survives lost workers whatever its queue
-- allows.
-- Locks: the run's row, then those of push_many. Errors: those of push_many.
create or replace function laneway.push_workflow_message(p_run_id text) returns void
language plpgsql
set search_path = ''
as $$
begin
  update laneway.workflow w
     set driver = (
       select '/' || laneway.message_id(p.segment, p.lane_id, p.seq)
         from laneway.push_many(
                array[w.queue_id], array[json_build_object('workflow', w.name, 'run', w.run_id)], array[w.name],
                p_max_attempts => array[32767::smallint]) p)
   where w.run_id = p_run_id;
end $$;
