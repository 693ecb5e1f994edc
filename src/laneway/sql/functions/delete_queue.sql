-- Deletes a queue with all it has. Without p_force only one in which nothing is queued, in hand or dead.
-- Locks: the lanes' advisory locks, in the order of push, so that no push is under way; the queue's, exclusive; then
-- the readers'. Errors: LW404 no such queue, LW409 not empty.
create or replace function laneway.delete_queue(p_name text, p_force boolean default false) returns void
language plpgsql set search_path = '' as $$
declare
  v_queue int;
  v_group int;
  v_left bigint;
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, l.lane_id)
     from (select l.lane_id from laneway.lane l join laneway.queue q on q.queue_id = l.queue_id where q.name = p_name order by l.partition, l.priority, l.stripe offset 0) l;
  select q.queue_id into v_queue from laneway.queue q where q.name = p_name for update;
  if not found then
    raise exception 'queue "%" does not exist', p_name using errcode = 'LW404';
  end if;
  perform pg_catalog.pg_advisory_xact_lock('laneway.queue'::regclass::oid::int, v_queue);
  if not p_force then
    select max(c.queued + c.processing + c.dead) into v_left
      from laneway.counts(array(select g.group_id from laneway.consumer_group g where g.queue_id = v_queue)) c;
    if v_left > 0 then
      raise exception 'queue "%" is not empty: % messages', p_name, v_left using errcode = 'LW409', hint = 'Purge it first, or delete it with force.';
    end if;
  end if;
  for v_group in select g.group_id from laneway.consumer_group g where g.queue_id = v_queue loop
    perform laneway.forget_group(v_group);
  end loop;
  delete from laneway.dedup_key where queue_id = v_queue;
  delete from laneway.outbox where queue_id = v_queue;
  delete from laneway.queue where queue_id = v_queue;
  insert into laneway.event (segment, at, action, queue_id, detail)
  values (laneway.current_segment(true), clock_timestamp(), 'queue_deleted', v_queue, json_build_object('name', p_name));
end $$;
