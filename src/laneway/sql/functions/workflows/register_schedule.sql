-- Store a periodic job of a program, known by its name and its queue, with the message that it pushes. p_body null: the
-- message is the job's name and the time. A job that is stored already gets this expression and message; its times and
-- whether it is paused stay.
-- Locks: the schedule's row. Errors: LW404 unknown queue.
create or replace function laneway.register_schedule(
  p_name text, p_expression text, p_queue text, p_body json default null, p_partition text default '',
  p_priority smallint default 0, p_headers json default null)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_queue int := laneway.find_queue(p_queue);
begin
  insert into laneway.schedule (name, expression, queue_id, body, partition, priority, headers)
  values (p_name, p_expression, v_queue, p_body, p_partition, p_priority, p_headers)
  on conflict (name, queue_id) do update
     set expression = excluded.expression,
         body = excluded.body,
         partition = excluded.partition,
         priority = excluded.priority,
         headers = excluded.headers;
end $$;
