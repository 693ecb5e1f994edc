-- Return a queue's id by its name. Locks: none. Errors: LW404 no such queue.
create or replace function laneway.find_queue(p_name text) returns int
language plpgsql stable
set search_path = ''
as $$
declare
  v_queue int := (select q.queue_id from laneway.queue q where q.name = p_name);
begin
  if v_queue is null then
    raise exception 'queue "%" does not exist', p_name
      using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  return v_queue;
end $$;
