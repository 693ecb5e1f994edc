-- Return the move tasks of a queue, newest first. Locks: none. Errors: LW422 a negative limit.
create or replace function laneway.list_moves(p_source text, p_limit int)
returns table (
  task_id uuid, status text, target text, rate int, moved bigint, total bigint, reason text, started_at timestamptz)
language plpgsql stable
set search_path = ''
as $$
begin
  if p_limit < 0 then
    raise exception 'limit must not be negative: %', p_limit
      using errcode = 'LW422', hint = 'Give 0 or more.';
  end if;
  return query
  select t.task_id, t.status, t.target, t.rate, t.moved, t.total, t.reason, t.started_at
    from laneway.move_task t
    join laneway.queue q on q.queue_id = t.queue_id
   where q.name = p_source
   order by t.started_at desc
   limit p_limit;
end $$;
