-- Return a group's id by its queue's name and its own. Locks: none. Errors: LW404 no such queue or group.
create or replace function laneway.find_group(p_queue text, p_group text default 'default') returns int
language plpgsql stable
set search_path = ''
as $$
declare
  v_group int := (
    select g.group_id
      from laneway.consumer_group g
      join laneway.queue q on q.queue_id = g.queue_id
     where q.name = p_queue
       and g.name = p_group);
begin
  if v_group is null then
    raise exception 'queue "%" does not exist, or has no group "%"', p_queue, p_group
      using errcode = 'LW404', hint = 'Create it first.';
  end if;
  return v_group;
end $$;
