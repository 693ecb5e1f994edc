-- Ends a move task. Answers how many messages it moved, null where it was not running. Locks: the row. Errors: none.
create or replace function laneway.cancel_move(p_task_id uuid) returns bigint
language sql set search_path = '' as $$
  update laneway.move_task set status = 'CANCELLED' where task_id = p_task_id and status = 'RUNNING' returning moved;
$$;
