-- Ends a move task of a queue. Answers how many messages it moved, null where it was not running, or of another queue. Locks: the row. Errors: none.
create or replace function laneway.cancel_move(p_task_id uuid, p_queue_id int) returns bigint
language sql set search_path = '' as $$
  update laneway.move_task set status = 'CANCELLED' where task_id = p_task_id and queue_id = p_queue_id and status = 'RUNNING' returning moved;
$$;
