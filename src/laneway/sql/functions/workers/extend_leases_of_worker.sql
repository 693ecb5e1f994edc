-- Extend the leases of all messages that a worker has in flight in its queues to at least p_lease from now, also of
-- messages that it claimed but has not received yet. Locks: the claims' rows, in order of lane and token. Errors: none.
create or replace function laneway.extend_leases_of_worker(p_worker_id text, p_lease interval) returns void
language sql
set search_path = ''
as $$
  with locked_claim as (
    select c.token, c.lane_id, c.part
      from laneway.claim c
      join laneway.consumer_group g on g.group_id = c.group_id
      join laneway.queue q on q.queue_id = g.queue_id
      join laneway.worker w on w.worker_id = p_worker_id and q.name = any (w.queues)
     where c.consumer = p_worker_id
       and c.until > clock_timestamp()
       and c.until < clock_timestamp() + p_lease
     order by c.lane_id, c.token, c.part
       for update of c)
  update laneway.claim c
     set until = clock_timestamp() + p_lease
    from locked_claim l
   where c.token = l.token
     and c.lane_id = l.lane_id
     and c.part = l.part;
$$;
