-- Return how many messages each consumer claimed and when it last did, for the p_limit consumers and queues with the
-- latest claims. Exact: what detectors have counted already, and the claims in the events that they have not read yet.
-- Reads those events, so it takes longer while detectors lag behind. Locks: none. Errors: none.
create or replace function laneway.list_consumers(
  p_queue_ids int[] default null, p_consumer text default null, p_limit int default 1000)
returns table (consumer text, taken bigint, last_at timestamptz)
language sql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
  -- One statement, so all parts see the same moment: store_activity moves a.seen and the counts together.
  with unread as materialized (
    select e.*
      from laneway.activity a
      cross join lateral (
        select w.action, w.queue_id, w.first_seq, w.last_seq, w.consumer, w.at,
               w.part_first, w.part_last, w.part_consumer
          from laneway.event w
         where w.xid = any (array(select x from pg_catalog.pg_snapshot_xip(a.seen) x))
           and w.xid >= a.cleared
        union all
        select w.action, w.queue_id, w.first_seq, w.last_seq, w.consumer, w.at,
               w.part_first, w.part_last, w.part_consumer
          from laneway.event w
         where w.xid >= greatest(pg_catalog.pg_snapshot_xmax(a.seen), a.cleared)) e
     where e.action = 'claimed'),
  counted as (
    select w.queue_id, w.consumer, w.taken, w.last_at
      from laneway.consumer_activity w
    union all
    select u.queue_id, left(coalesce(p.consumer, u.consumer), 500),
           coalesce(p.last_seq, u.last_seq) - coalesce(p.first_seq, u.first_seq) + 1, u.at
      from unread u
      left join lateral unnest(u.part_first, u.part_last, u.part_consumer) p (first_seq, last_seq, consumer) on true)
  select c.consumer, sum(c.taken)::bigint, max(c.last_at)
    from (select w.consumer, sum(w.taken) as taken, max(w.last_at) as last_at
            from counted w
           where w.consumer is not null
             and (p_queue_ids is null or w.queue_id = any (p_queue_ids))
             and (p_consumer is null or w.consumer = p_consumer)
             and exists (select from laneway.queue q where q.queue_id = w.queue_id)
           group by w.queue_id, w.consumer
           order by 3 desc
           limit greatest(p_limit, 0)) c
   group by c.consumer
   order by 3 desc;
$$;
