-- Delete a queue with everything in it. Its unfinished workflow runs fail.
-- Without p_force the queue must have no queued, in-flight or dead messages, no unfinished workflow runs, no pending
-- timers, and no committed messages in the outbox. Outbox messages that are committed during the call or later stay
-- there: drain_outbox marks them with an error.
-- Locks: in this order, the rows of the unfinished runs and of the timers, because resuming a run or firing a timer
-- locks its row before it pushes; the lanes' advisory locks, in the order of push, so that no push is in progress; the
-- queue's advisory lock, exclusive; its row; the readers' advisory locks. If the queue has more than 2000 lanes and
-- readers, neither lanes nor readers are locked, and sweep_forgotten deletes the readers' rows later. Without p_force
-- the table of queues is then locked against all access, also that of pushes, for which this waits a tenth of a second
-- at most. A push that waited for these locks fails because the queue does not exist.
-- Errors: LW404 no such queue, LW409 not empty, LW503 a queue with many lanes is in use.
create or replace function laneway.delete_queue(p_name text, p_force boolean default false) returns void
language plpgsql
set search_path = ''
as $$
declare
  v_queue int;
  v_group int;
  v_left bigint;
  v_wide boolean; -- too many lanes and readers to lock each of them
  v_timeout text := pg_catalog.current_setting('lock_timeout');
begin
  -- Lock the workflow runs, the timers, the lanes and the queue.
  perform from laneway.workflow w
    join laneway.queue q on q.queue_id = w.queue_id
   where q.name = p_name
     and w.status in ('running', 'paused')
   order by w.run_id
     for no key update of w;
  perform from laneway.timer t
    join laneway.queue q on q.queue_id = t.queue_id
   where q.name = p_name
   order by t.key
     for update of t;
  v_wide := (
    select count(*) > 2000
      from (select from laneway.lane l
              join laneway.queue q on q.queue_id = l.queue_id
              left join laneway.consumer_group g on g.queue_id = q.queue_id
             where q.name = p_name
             limit 2001) l);
  if not v_wide then
    perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, l.lane_id)
       from (select l.lane_id
               from laneway.lane l
               join laneway.queue q on q.queue_id = l.queue_id
              where q.name = p_name
              order by l.partition collate "C", l.priority, l.stripe
             offset 0) l;
  elsif p_force is not true then
    begin
      perform pg_catalog.set_config('lock_timeout', '100ms', true);
      lock table laneway.queue in access exclusive mode;
      perform pg_catalog.set_config('lock_timeout', v_timeout, true);
    exception when lock_not_available then
      raise exception 'queue "%" has too many lanes to be deleted while others use queues', p_name
        using errcode = 'LW503', hint = 'Call again, or delete it with force.';
    end;
  end if;
  v_queue := (select q.queue_id from laneway.queue q where q.name = p_name);
  perform pg_catalog.pg_advisory_xact_lock('laneway.queue'::regclass::oid::int, v_queue);
  perform from laneway.queue q where q.queue_id = v_queue and q.name = p_name for update;
  if not found then
    raise exception 'queue "%" does not exist', p_name
      using errcode = 'LW404', hint = 'List the queues to see their names.';
  end if;

  -- Refuse a queue that is not empty.
  if p_force is not true then
    v_left := (
      select coalesce(max(c.queued + c.processing + c.dead), 0)
        from laneway.count_by_state(array(
               select g.group_id from laneway.consumer_group g where g.queue_id = v_queue)) c);
    if v_left > 0 then
      raise exception 'queue "%" is not empty: % messages', p_name, v_left
        using errcode = 'LW409', hint = 'Purge it first, or delete it with force.';
    end if;
    -- Messages with an error stay in the outbox, whether the queue exists or not.
    v_left := (select count(*) from laneway.outbox o where o.queue_id = v_queue and o.error is null);
    if v_left > 0 then
      raise exception 'queue "%" is not empty: % messages are still in the outbox', p_name, v_left
        using errcode = 'LW409', hint = 'Call again when they have been moved to the queue, or delete it with force.';
    end if;
    if exists (select from laneway.workflow w where w.queue_id = v_queue and w.status in ('running', 'paused')) then
      raise exception 'queue "%" has unfinished workflow runs', p_name
        using errcode = 'LW409', hint = 'Cancel them first, or delete it with force.';
    end if;
    if exists (select from laneway.timer t where t.queue_id = v_queue) then
      raise exception 'queue "%" has pending timers', p_name
        using errcode = 'LW409', hint = 'Cancel them first, or delete it with force.';
    end if;
  end if;

  -- Delete it. Without a driver, no worker can go on with a run.
  update laneway.workflow
     set status = 'failed', error = 'its queue was deleted', finished_at = clock_timestamp(), driver = null
   where queue_id = v_queue
     and status in ('running', 'paused');
  for v_group in select g.group_id from laneway.consumer_group g where g.queue_id = v_queue loop
    perform laneway.forget_group(v_group, v_wide);
  end loop;
  delete from laneway.dedup_key where queue_id = v_queue;
  if p_force then
    delete from laneway.outbox where queue_id = v_queue;
  end if;
  delete from laneway.queue where queue_id = v_queue;
  perform laneway.insert_event('queue_deleted', v_queue, p_detail => json_build_object('name', p_name));
end $$;
