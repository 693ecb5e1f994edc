-- Rename a queue, also where workers are registered for it. Locks: the row, then its default group's and the
-- workers' rows, in order.
-- Errors: LW404 no such queue, LW409 the new name is in use, LW422 an empty or too long name.
create or replace function laneway.rename_queue(p_name text, p_new_name text) returns void
language plpgsql
set search_path = ''
as $$
declare
  v_queue int;
begin
  update laneway.queue
     set name = p_new_name, updated_at = clock_timestamp()
   where name = p_name
  returning queue_id into v_queue;
  if not found then
    raise exception 'queue "%" does not exist', p_name
      using errcode = 'LW404', hint = 'List the queues to see their names.';
  end if;
  update laneway.consumer_group g
     set fifo = g.ordered and p_new_name like '%.fifo'
   where g.queue_id = v_queue
     and g.name = 'default';
  update laneway.worker w
     set queues = array_replace(w.queues, p_name, p_new_name)
   where w.worker_id = any (array(
     select o.worker_id
       from laneway.worker o
      where p_name = any (o.queues)
      order by o.worker_id
        for update));
  perform laneway.insert_event('queue_renamed', v_queue,
                               p_detail => json_build_object('from', p_name, 'to', p_new_name));
exception
  when unique_violation then
    raise exception 'queue "%" already exists', p_new_name
      using errcode = 'LW409', hint = 'Choose another name.';
  when check_violation or not_null_violation then
    raise exception 'a queue''s name must not be empty'
      using errcode = 'LW422', hint = 'Choose a name.';
  when program_limit_exceeded then
    perform laneway.raise_long_name('a queue''s name', octet_length(p_new_name));
end $$;
