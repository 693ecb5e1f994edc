-- Move committed messages from the outbox to their lanes, oldest first. Return the queues that got messages.
-- A message that fails, for instance because its queue was deleted, stays in the outbox with its error. It raises a
-- warning and is skipped from then on.
-- p_limit: messages at most.
-- Locks: the outbox rows (skipping locked ones), and those of push_many. Errors: none of its own.
create or replace function laneway.drain_outbox(p_limit int default 1000) returns setof int
language plpgsql set search_path = '' as $$
declare
  v_rows record;         -- arrays, one element per message
begin
  with removed as (
    delete from laneway.outbox o
     where o.outbox_id = any (array(
             select i.outbox_id
               from laneway.outbox i
              where i.error is null
              order by i.outbox_id
              limit greatest(p_limit, 0)
                for update skip locked))
    returning o.*)
  select array_agg(t.queue_id order by t.outbox_id) as queues,
         array_agg(t.body order by t.outbox_id) as bodies,
         array_agg(t.partition order by t.outbox_id) as partitions,
         array_agg(t.priority order by t.outbox_id) as priorities,
         array_agg(t.delay order by t.outbox_id) as delays,
         array_agg(t.key order by t.outbox_id) as keys,
         array_agg(t.headers order by t.outbox_id) as headers,
         array_agg(t.lease order by t.outbox_id) as leases,
         array_agg(t.max_attempts order by t.outbox_id) as max_attempts
    into v_rows
    from removed t;
  if v_rows.queues is null then
    return;
  end if;

  perform pg_catalog.set_config('laneway.draining', 'on', true);
  begin
    perform laneway.push_mixed(
      v_rows.queues, v_rows.bodies, v_rows.partitions, v_rows.priorities, v_rows.delays, v_rows.keys, v_rows.headers,
      v_rows.leases, v_rows.max_attempts, '{"largest": 1}');
  exception
    when data_exception or program_limit_exceeded or raise_exception
         or sqlstate 'LW404' or sqlstate 'LW413' or sqlstate 'LW422' then
      -- Push one by one, so that a message that fails does not stop the others.
      for i in 1..cardinality(v_rows.queues) loop
        begin
          perform laneway.push_mixed(
            v_rows.queues[i:i], v_rows.bodies[i:i], v_rows.partitions[i:i], v_rows.priorities[i:i],
            v_rows.delays[i:i], v_rows.keys[i:i], v_rows.headers[i:i], v_rows.leases[i:i],
            v_rows.max_attempts[i:i]);
        exception
          when data_exception or program_limit_exceeded or raise_exception
               or sqlstate 'LW404' or sqlstate 'LW413' or sqlstate 'LW422' then
            insert into laneway.outbox (
              queue_id, partition, priority, delay, lease, max_attempts, key, headers, body, error)
            values (
              v_rows.queues[i], v_rows.partitions[i], v_rows.priorities[i], v_rows.delays[i], v_rows.leases[i],
              v_rows.max_attempts[i], v_rows.keys[i], v_rows.headers[i], v_rows.bodies[i], sqlerrm);
            raise warning 'outbox: push to queue % failed, the message stays in laneway.outbox: %',
              coalesce(
                (select format('"%s"', q.name) from laneway.queue q where q.queue_id = v_rows.queues[i]),
                v_rows.queues[i]::text),
              sqlerrm;
        end;
      end loop;
  end;
  perform pg_catalog.set_config('laneway.draining', 'off', true);
  return query
    select q.queue_id
      from laneway.queue q
     where q.queue_id = any (v_rows.queues);
end $$;
