-- Push the messages of timers whose time has come, the longest due first, at most p_limit, and delete the timers: both
-- in one transaction, so that each message is pushed once. A message whose dedup key was pushed before is not pushed
-- again.
-- A timer whose queue is full is due again a second later. So is, a minute later, one whose push fails: it keeps the
-- error, and raises a warning.
-- Return the queues that got messages; then, with queue_id null, how long it is until the next timer is due (null:
-- there is none).
-- Locks: the timers' rows, skipping locked ones; those of push_within_limits. Errors: none of its own.
create or replace function laneway.fire_timers(p_limit int default 500)
returns table (queue_id int, until_next interval)
language plpgsql
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_due record;            -- arrays, one element per timer
  v_pushed int[];          -- by position
  v_error text;
begin
  select array_agg(d.queue_id) as queues, array_agg(d.key) as keys, array_agg(d.partition) as partitions,
         array_agg(d.dedup_key) as dedup_keys, array_agg(d.headers) as headers, array_agg(d.body) as bodies
    into v_due
    from (select t.queue_id, t.key, t.partition, t.dedup_key, t.headers, t.body
            from laneway.timer t
           where t.due_at <= clock_timestamp()
           order by t.due_at, t.updated_at, t.queue_id, t.key
           limit p_limit
             for update skip locked) d;

  if v_due.queues is not null then
    -- Their sizes were checked when they were set.
    perform pg_catalog.set_config('laneway.draining', 'on', true);
    begin
      v_pushed := array(
        select p.idx + 1
          from laneway.push_within_limits(
                 v_due.queues, v_due.bodies, v_due.partitions, v_due.dedup_keys, v_due.headers) p);
    exception
      when data_exception or program_limit_exceeded or raise_exception
           or sqlstate 'LW404' or sqlstate 'LW413' or sqlstate 'LW422' then
        -- Push one by one, so that a message that fails does not stop the others.
        v_pushed := '{}';
        for i in 1..cardinality(v_due.queues) loop
          begin
            if exists (
              select from laneway.push_within_limits(
                v_due.queues[i:i], v_due.bodies[i:i], v_due.partitions[i:i], v_due.dedup_keys[i:i],
                v_due.headers[i:i])) then
              v_pushed := v_pushed || i;
            end if;
          exception
            when data_exception or program_limit_exceeded or raise_exception
                 or sqlstate 'LW404' or sqlstate 'LW413' or sqlstate 'LW422' then
              v_error := sqlerrm;
              raise warning 'timer "%" of queue %: the push failed: %', v_due.keys[i], v_due.queues[i], v_error;
              update laneway.timer t
                 set attempts = t.attempts + 1,
                     error = v_error,
                     due_at = clock_timestamp() + interval '1 minute'
               where t.queue_id = v_due.queues[i]
                 and t.key = v_due.keys[i];
          end;
        end loop;
    end;
    perform pg_catalog.set_config('laneway.draining', 'off', true);

    delete from laneway.timer t
     using unnest(v_pushed) p (n)
     where t.queue_id = v_due.queues[p.n]
       and t.key = v_due.keys[p.n];
    update laneway.timer t
       set attempts = t.attempts + 1,
           error = 'the queue is full',
           due_at = clock_timestamp() + interval '1 second'
      from unnest(v_due.queues, v_due.keys) d (queue_id, key)
     where t.queue_id = d.queue_id
       and t.key = d.key
       and t.due_at <= clock_timestamp();
    return query
      select distinct v_due.queues[p.n], null::interval
        from unnest(v_pushed) p (n);
  end if;

  return query
    select null::int, (select min(t.due_at) - clock_timestamp() from laneway.timer t);
end $$;
