-- Cancel a running move task of a queue. Return how many messages it moved, or null if the queue has no such running
-- task.
-- Locks: the row. Errors: none.
create or replace function laneway.cancel_move(p_task_id uuid, p_queue_id int) returns bigint
language sql
set search_path = ''
as $$
  update laneway.move_task
     set status = 'CANCELLED'
   where task_id = p_task_id
     and queue_id = p_queue_id
     and status = 'RUNNING'
  returning moved;
$$;
