-- Delete the stored start of a group in one queue, or in all of them (p_queue_id null). Locks: the rows. Errors: none.
create or replace function laneway.forget_subscription(p_name text, p_queue_id int default null) returns void
language sql
set search_path = ''
as $$
  delete from laneway.stream_subscription
   where group_name = p_name
     and (p_queue_id is null or queue_id = p_queue_id);
$$;
