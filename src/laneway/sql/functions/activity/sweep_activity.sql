-- Delete anomalies and consumer counts that are past the retention of events, at most p_limit of each. Return how many.
-- Locks: their rows. Errors: none.
create or replace function laneway.sweep_activity(p_limit int) returns bigint
language sql
set search_path = ''
as $$
  with old as (
    select clock_timestamp() - p.event_retention as at
      from laneway.policy p),
  anomalies as (
    delete from laneway.anomaly
     where anomaly_id in (
       select a.anomaly_id
         from laneway.anomaly a
        where a.at < (select o.at from old o)
        order by a.at
        limit greatest(p_limit, 0))
    returning 1),
  consumers as (
    delete from laneway.consumer_activity
     where (queue_id, consumer) in (
       select c.queue_id, c.consumer
         from laneway.consumer_activity c
        where c.last_at < (select o.at from old o)
        order by c.last_at
        limit greatest(p_limit, 0))
    returning 1)
  select (select count(*) from anomalies) + (select count(*) from consumers);
$$;
