-- Send a transaction again that was given up: redrive its dead letter or, if that is gone, push its message anew.
-- p_body: the message to push. p_max_attempts: of that message; null: the queue's.
-- Return its status, and whether it will be sent again; no row if it does not exist.
-- Locks: the transaction's row; those of move_messages or push_many. Errors: those of push_many.
create or replace function laneway.retry_transaction(
  p_id uuid, p_queue_id int, p_body json, p_max_attempts smallint default null)
returns table (status text, retried boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_transaction laneway.gateway_transaction;
  v_group_id int;
  v_moved int := 0;
begin
  select t.* into v_transaction
    from laneway.gateway_transaction t
   where t.transaction_id = p_id
     for update;
  if not found then
    return;
  end if;
  status := v_transaction.status;
  retried := v_transaction.given_up;
  if not retried then
    return next;
    return;
  end if;
  select g.group_id into v_group_id
    from laneway.consumer_group g
    join laneway.lane l
      on l.queue_id = g.queue_id
     and l.lane_id = v_transaction.lane_id
   where g.queue_id = p_queue_id
     and g.name = 'default';
  if found then
    select count(*) into v_moved
      from laneway.move_messages(
             v_group_id, array[v_transaction.segment], array[v_transaction.lane_id], array[v_transaction.seq],
             'dead', 'queued');
  end if;
  if v_moved = 0 then
    select p.segment, p.lane_id, p.seq
      into v_transaction.segment, v_transaction.lane_id, v_transaction.seq
      from laneway.push_many(
             p_queues => array[p_queue_id],
             p_bodies => array[p_body],
             p_partitions => array[v_transaction.target],
             p_max_attempts => case when p_max_attempts is not null then array[p_max_attempts] end) p;
  end if;
  status := 'pending';
  update laneway.gateway_transaction t
     set status = 'pending',
         rank = 0,
         final = false,
         given_up = false,
         calls = 0,
         error = null,
         segment = v_transaction.segment,
         lane_id = v_transaction.lane_id,
         seq = v_transaction.seq,
         updated_at = clock_timestamp()
   where t.transaction_id = p_id;
  return next;
end $$;
