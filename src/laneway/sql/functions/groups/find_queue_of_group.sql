-- Return the queue of a group, and whether the queue is logged. Locks: none. Errors: LW404 no such group.
create or replace function laneway.find_queue_of_group(p_group_id int, out queue_id int, out logged boolean)
language plpgsql stable
set search_path = ''
as $$
#variable_conflict use_column
begin
  select q.queue_id, q.kind <> 'unlogged' into queue_id, logged
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id
      using errcode = 'LW404', hint = 'The group or its queue was deleted. Look it up again.';
  end if;
end $$;
