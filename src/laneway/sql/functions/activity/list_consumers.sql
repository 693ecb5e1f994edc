-- Return how many messages each consumer claimed and when it last did, for the p_limit consumers and queues with the
-- latest claims. Locks: none. Errors: none.
create or replace function laneway.list_consumers(
  p_queue_ids int[] default null, p_consumer text default null, p_limit int default 1000)
returns table (consumer text, taken bigint, last_at timestamptz)
language sql stable
set search_path = ''
as $$
  select c.consumer, sum(c.taken)::bigint, max(c.last_at)
    from (select w.consumer, w.taken, w.last_at
            from laneway.consumer_activity w
           where (p_queue_ids is null or w.queue_id = any (p_queue_ids))
             and (p_consumer is null or w.consumer = p_consumer)
           order by w.last_at desc
           limit greatest(p_limit, 0)) c
   group by c.consumer
   order by 3 desc;
$$;
