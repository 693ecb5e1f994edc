-- Return the timers of a queue that are pending: the one with p_key, or those whose keys follow p_after, in byte order.
-- Locks: none. Errors: none.
create or replace function laneway.list_timers(
  p_queue_id int, p_key text default null, p_after text default null, p_limit int default 100)
returns table (
  key text, timer_id uuid, partition text, deliver_at timestamptz, dedup_key text, headers json, body json,
  attempts int, error text, created_at timestamptz, updated_at timestamptz)
language sql stable
set search_path = ''
as $$
  select t.key, t.timer_id, t.partition, t.deliver_at, t.dedup_key, t.headers, t.body, t.attempts, t.error,
         t.created_at, t.updated_at
    from laneway.timer t
   where t.queue_id = p_queue_id
     and (p_key is null or t.key = p_key)
     and (p_after is null or t.key > p_after)
   order by t.key
   limit greatest(p_limit, 0);
$$;
