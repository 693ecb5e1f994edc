-- Start a task that moves all ready messages of a queue to another queue, or each message to its source (p_target
-- null).
-- p_rate: messages per second; null for no limit. Return the task's id, or null if a task of the queue is running
-- already.
-- Locks: none. Errors: LW404 no such queue, LW422 a rate below 1.
create or replace function laneway.start_move(p_source text, p_target text, p_rate int) returns uuid
language plpgsql
set search_path = ''
as $$
declare
  v_source int := (select q.queue_id from laneway.queue q where q.name = p_source);
  v_target int := (select q.queue_id from laneway.queue q where q.name = p_target);
  v_missing text;
  v_task uuid;
begin
  if p_rate < 1 then
    raise exception 'rate must be 1 or more, not %', p_rate
      using errcode = 'LW422', hint = 'Give messages per second, or null for no limit.';
  end if;
  if v_source is null or (p_target is not null and v_target is null) then
    v_missing := case when v_source is null then p_source else p_target end;
    raise exception 'queue "%" does not exist', v_missing
      using errcode = 'LW404', detail = coalesce(v_missing, 'null'), hint = 'Create the queue first.';
  end if;
  insert into laneway.move_task (queue_id, target_id, target, rate, total)
  select v_source, v_target, p_target, p_rate, c.queued - c.delayed
    from laneway.count_by_state(array(
           select g.group_id
             from laneway.consumer_group g
            where g.queue_id = v_source
              and g.name = 'default')) c
      on conflict do nothing
  returning task_id into v_task;
  return v_task;
end $$;
