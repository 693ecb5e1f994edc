-- Count the messages that a worker has in flight in the queues it is registered for. Locks: none. Errors: none.
create or replace function laneway.count_in_flight_of_worker(p_consumer text) returns bigint
language sql stable
set search_path = ''
as $$
  select coalesce(sum(laneway.count_seqs(c.pending)), 0)::bigint
    from laneway.claim c
    join laneway.consumer_group g on g.group_id = c.group_id
    join laneway.queue q on q.queue_id = g.queue_id
    join laneway.worker w on w.worker_id = p_consumer and q.name = any (w.queues)
   where c.consumer = p_consumer
     and c.until > clock_timestamp();
$$;
