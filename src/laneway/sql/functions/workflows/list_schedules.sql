-- Return the periodic jobs of a queue, or of all: the newest time that was fired, when that was, and since when a job
-- is paused. Locks: none. Errors: LW404 unknown queue.
create or replace function laneway.list_schedules(p_queue text default null)
returns table (
  name text, queue text, expression text, fired_for timestamptz, fired_at timestamptz, paused_at timestamptz)
language plpgsql stable
set search_path = ''
as $$
declare
  v_queue int := case when p_queue is not null then laneway.find_queue(p_queue) end;
begin
  return query
    select s.name, q.name, s.expression, nullif(s.fired_for, '-infinity'), s.fired_at, s.paused_at
      from laneway.schedule s
      join laneway.queue q on q.queue_id = s.queue_id
     where v_queue is null
        or s.queue_id = v_queue
     order by q.name, s.name;
end $$;
