-- Begins to move all that waits in a queue to another one (null: each message to where it came from).
-- p_rate: messages a second, null for as fast as it goes. Answers the task, null where one is running already.
-- Locks: none. Errors: LW404 no such queue, LW422 a rate that cannot be.
create or replace function laneway.start_move(p_source text, p_target text, p_rate int) returns uuid
language plpgsql set search_path = '' as $$
declare
  v_source int := (select q.queue_id from laneway.queue q where q.name = p_source);
  v_target int := (select q.queue_id from laneway.queue q where q.name = p_target);
  v_task uuid;
begin
  if p_rate < 1 then
    raise exception 'cannot move % messages a second', p_rate using errcode = 'LW422', hint = 'A rate is 1 or more; null is as fast as it goes.';
  end if;
  if v_source is null or (p_target is not null and v_target is null) then
    raise exception 'queue "%" does not exist', case when v_source is null then p_source else p_target end
      using errcode = 'LW404', detail = case when v_source is null then p_source else p_target end;
  end if;
  insert into laneway.move_task (queue_id, target_id, target, rate, total)
  select v_source, v_target, p_target, p_rate, c.queued - c.delayed
    from laneway.count_by_state(array(select g.group_id from laneway.consumer_group g where g.queue_id = v_source and g.name = 'default')) c
  on conflict do nothing returning task_id into v_task;
  return v_task;
end $$;
