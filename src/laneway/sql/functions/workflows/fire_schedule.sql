-- Push the message of a periodic job, known by its name and queue, for one of its due times. Of many callers, one
-- pushes: a call for a due time that was fired already, or an earlier one, does nothing, and so does one for a job that
-- is paused. Return whether this call pushed.
-- Schedules of the same name whose queue was deleted are deleted.
-- Locks: the schedule's row, then those of push_many.
-- Errors: LW404 unknown queue, LW422 a due time in the future, which would stop the job until then; those of push_many.
create or replace function laneway.fire_schedule(
  p_name text, p_expression text, p_due timestamptz, p_queue text, p_body json, p_partition text default '',
  p_priority smallint default 0, p_headers json default null)
returns boolean
language plpgsql
set search_path = ''
as $$
declare
  v_queue int := laneway.find_queue(p_queue);
begin
  if p_due > clock_timestamp() + interval '1 min' then
    raise exception 'schedule "%" of queue "%" is not due until %', p_name, p_queue, p_due
      using errcode = 'LW422', hint = 'Fire it when that time has come.';
  end if;
  insert into laneway.schedule (name, expression, queue_id, fired_for, fired_at)
  values (p_name, p_expression, v_queue, p_due, clock_timestamp())
  on conflict (name, queue_id) do update
     set expression = excluded.expression, fired_for = excluded.fired_for, fired_at = excluded.fired_at
   where laneway.schedule.fired_for < excluded.fired_for
     and laneway.schedule.paused_at is null;
  if not found then
    return false;
  end if;
  delete from laneway.schedule s
   where s.name = p_name
     and not exists (select from laneway.queue q where q.queue_id = s.queue_id);
  perform laneway.push_many(array[v_queue], array[p_body], array[p_partition], array[p_priority], null, null,
                            case when p_headers is not null then array[p_headers] end);
  return true;
end $$;
