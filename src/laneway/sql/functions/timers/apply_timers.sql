-- Set and cancel timers: messages that fire_timers pushes at a time. The arrays have one element per operation, each
-- about another timer, which its queue and key name.
-- p_delays: from now, may be negative; null: cancel. Setting a timer again replaces it. The other arrays are those of
-- push_many; p_ids are the timers' new ids. p_guards: what the caller assumes about the queue's encryption.
-- A cancel whose queue is null finds nothing.
-- Return for each operation a status: 'scheduled', 'rescheduled', 'cancelled' or 'absent', and the timer's values.
-- Locks: the timers' rows, in order of queue and key.
-- Errors: LW404 unknown queue, LW412 its encryption was changed, LW413 a body is too large, LW422 a partition and dedup
-- key are too long together.
create or replace function laneway.apply_timers(
  p_queues int[], p_keys text[], p_ids uuid[], p_delays interval[], p_partitions text[], p_dedup_keys text[],
  p_headers json[], p_bodies json[], p_guards smallint[])
returns table (idx int, status text, dedup_key text, timer_id uuid, deliver_at timestamptz)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_item record;
begin
  for v_item in
    select u.n, q.queue_id, q.guards, q.name, u.queue, u.guards as expected, u.delay is null as is_cancel, q.max_bytes
      from unnest(p_queues, p_delays, p_guards) with ordinality u (queue, delay, guards, n)
      left join lateral (
        select o.queue_id, o.guards, o.name, o.max_bytes
          from laneway.queue o
         where o.queue_id = u.queue
        offset 0) q on true
     where u.delay is not null
     order by u.n
  loop
    if v_item.queue_id is null then
      raise exception 'queue % does not exist', v_item.queue
        using errcode = 'LW404', hint = 'Create the queue first.';
    elsif (v_item.guards & 1) is distinct from (v_item.expected & 1) then
      raise exception 'queue options changed since they were read'
        using errcode = 'LW412', hint = 'Read the queue''s options again, then repeat the call.';
    elsif octet_length(p_bodies[v_item.n]::text) > v_item.max_bytes then
      raise exception 'timer "%" is % bytes, queue "%" allows at most %',
        p_keys[v_item.n], octet_length(p_bodies[v_item.n]::text), v_item.name, v_item.max_bytes
        using errcode = 'LW413', detail = v_item.name, hint = 'Send less, or raise the queue''s max_bytes.';
    elsif octet_length(p_partitions[v_item.n]) + octet_length(p_dedup_keys[v_item.n]) > 2000
          or octet_length(p_keys[v_item.n]) > 2000 then
      -- Pushing it would fail.
      raise exception 'the partition and dedup key of timer "%", or its key, are too long', p_keys[v_item.n]
        using errcode = 'LW422', hint = 'Up to 2000 bytes always fit. Use a hash of them.';
    end if;
  end loop;

  for v_item in
    select u.n, u.queue, u.key, u.delay
      from unnest(p_queues, p_keys, p_delays) with ordinality u (queue, key, delay, n)
     order by u.queue, u.key collate "C"
  loop
    idx := v_item.n - 1;
    dedup_key := p_dedup_keys[v_item.n];
    timer_id := null;
    deliver_at := null;
    if v_item.delay is null then
      delete from laneway.timer t
       where t.queue_id = v_item.queue
         and t.key = v_item.key
      returning t.dedup_key, t.timer_id, t.deliver_at
        into dedup_key, timer_id, deliver_at;
      status := case when found then 'cancelled' else 'absent' end;
      if not found then
        dedup_key := p_dedup_keys[v_item.n];
      end if;
    else
      timer_id := p_ids[v_item.n];
      deliver_at := v_now + v_item.delay;
      insert into laneway.timer as t (
        queue_id, key, timer_id, partition, deliver_at, due_at, dedup_key, headers, body, created_at, updated_at)
      values (v_item.queue, v_item.key, timer_id, p_partitions[v_item.n], deliver_at, deliver_at, dedup_key,
              p_headers[v_item.n], p_bodies[v_item.n], v_now, v_now)
      on conflict (queue_id, key) do update
         set timer_id = excluded.timer_id,
             partition = excluded.partition,
             deliver_at = excluded.deliver_at,
             due_at = excluded.due_at,
             attempts = 0,
             error = null,
             dedup_key = excluded.dedup_key,
             headers = excluded.headers,
             body = excluded.body,
             updated_at = excluded.updated_at
      returning case when t.created_at = t.updated_at then 'scheduled' else 'rescheduled' end
        into status;
    end if;
    return next;
  end loop;
end $$;
