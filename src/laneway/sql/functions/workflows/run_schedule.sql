-- Push the message of a periodic job now, whether or not it is paused; its times stay. Return the message's place.
-- Locks: those of push_many. Errors: LW404 unknown queue or job; those of push_many.
create or replace function laneway.run_schedule(
  p_name text, p_queue text, out segment int, out lane_id int, out seq bigint)
language plpgsql
set search_path = ''
as $$
declare
  v_queue int := laneway.find_queue(p_queue);
  v_job record;
begin
  select s.body, s.partition, s.priority, s.headers into v_job
    from laneway.schedule s
   where s.name = p_name
     and s.queue_id = v_queue;
  if not found then
    perform laneway.raise_unknown_schedule(p_name, p_queue);
  end if;
  select p.segment, p.lane_id, p.seq into segment, lane_id, seq
    from laneway.push_many(
           array[v_queue],
           array[coalesce(v_job.body, json_build_object('schedule', p_name, 'due', clock_timestamp()))],
           array[v_job.partition], array[v_job.priority], null, null,
           case when v_job.headers is not null then array[v_job.headers] end) p;
end $$;
