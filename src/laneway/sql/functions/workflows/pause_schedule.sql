-- Pause a periodic job, or resume it: while it is paused, its times pass without a message. Return since when it is
-- paused, null if it is not. Locks: the schedule's row. Errors: LW404 unknown queue or job.
create or replace function laneway.pause_schedule(p_name text, p_queue text, p_paused boolean) returns timestamptz
language plpgsql
set search_path = ''
as $$
declare
  v_queue int := laneway.find_queue(p_queue);
  v_paused_at timestamptz;
begin
  update laneway.schedule s
     set paused_at = case when p_paused then coalesce(s.paused_at, clock_timestamp()) end
   where s.name = p_name
     and s.queue_id = v_queue
  returning s.paused_at into v_paused_at;
  if not found then
    perform laneway.raise_unknown_schedule(p_name, p_queue);
  end if;
  return v_paused_at;
end $$;
