-- Push a message that drives a workflow run, in the partition of its workflow, and return its id. It has the highest
-- number of attempts there is, so that a run survives lost workers whatever its queue allows.
-- p_delay: null for the queue's.
-- Locks: those of push_many. Errors: those of push_many.
create or replace function laneway.push_workflow_message(p_run_id text, p_delay interval default null) returns text
language sql
set search_path = ''
as $$
  select laneway.message_id(p.segment, p.lane_id, p.seq)
    from laneway.workflow w
    cross join lateral laneway.push_many(
           array[w.queue_id], array[json_build_object('workflow', w.name, 'run', w.run_id)], array[w.name],
           array[w.priority], case when p_delay is not null then array[p_delay] end,
           p_max_attempts => array[32767::smallint]) p
   where w.run_id = p_run_id;
$$;
