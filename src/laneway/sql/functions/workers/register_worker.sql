-- Register a worker, or as p_kind a consumer or producer of a program. One that registers again with its id starts from
-- zero.
-- Locks: the row.
-- Errors: LW404 a queue does not exist, LW422 a timeout that is not positive.
create or replace function laneway.register_worker(
  p_worker_id text, p_name text, p_host text, p_pid int, p_queues text[], p_timeout interval,
  p_kind text default 'worker')
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_queue text;
begin
  select u.name into v_queue
    from unnest(p_queues) u (name)
   where not exists (select from laneway.queue q where q.name = u.name)
   limit 1;
  if found then
    raise exception 'queue "%" does not exist', v_queue
      using errcode = 'LW404', detail = v_queue, hint = 'Create the queue first.';
  end if;
  if (p_timeout > interval '0') is not true then
    raise exception 'worker timeout must be positive, not %', coalesce(p_timeout::text, 'null')
      using errcode = 'LW422', hint = 'Give an interval such as ''30 seconds''.';
  end if;
  insert into laneway.worker (worker_id, name, host, pid, queues, timeout, kind)
  values (p_worker_id, p_name, p_host, p_pid, p_queues, p_timeout, p_kind)
  on conflict (worker_id) do update
     set name = excluded.name, host = excluded.host, pid = excluded.pid, queues = excluded.queues,
         timeout = excluded.timeout, kind = excluded.kind, state = 'ready', asked = null, handled = 0, failed = 0,
         started_at = clock_timestamp(), heartbeat_at = clock_timestamp(), stopped_at = null;
end $$;
