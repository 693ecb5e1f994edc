-- Return the counts of one group of a queue, of the queue's own group by default, and how many messages a second were
-- pushed and acked in the last minute. p_queue null: a row for each queue that has the group.
-- The rates are computed from the newest 20000 events at most, for the part of the minute that these cover.
-- Locks: none. Errors: LW404 no such queue, or no such group of it.
create or replace function laneway.metrics(p_queue text default null, p_group text default 'default')
returns table (
  queue text, total bigint, pending bigint, delayed bigint, locked bigint, acknowledged bigint, archived bigint,
  dead bigint, oldest timestamptz, newest timestamptz, pushed_per_second float8, settled_per_second float8)
language plpgsql stable
set search_path = ''
as $$
begin
  if p_queue is not null then
    perform laneway.find_group(p_queue, p_group);
  end if;
  return query
  with recent as materialized (
    select e.queue_id, e.group_id, e.action, e.at, e.last_seq - e.first_seq + 1 as messages
      from (select v.*
              from laneway.events v
             order by v.xid desc, v.event_id desc
             limit 20000) e
     where e.at > clock_timestamp() - interval '1 minute'
       and e.action in ('pushed', 'acked')),
  window_length as (
    select greatest(extract(epoch from clock_timestamp() - case
             when count(*) < 20000 then clock_timestamp() - interval '1 minute'
             else min(r.at) end), 1)::float8 as seconds
      from recent r)
  select c.queue, c.queued + c.processing, c.queued, c.delayed, c.processing, c.acknowledged, c.archived, c.dead,
         c.oldest, c.newest,
         (select coalesce(sum(r.messages), 0)
            from recent r
           where r.queue_id = c.queue_id
             and r.action = 'pushed')::float8 / w.seconds,
         (select coalesce(sum(r.messages), 0)
            from recent r
           where r.queue_id = c.queue_id
             and r.group_id = c.group_id
             and r.action = 'acked')::float8 / w.seconds
    from window_length w
    cross join lateral laneway.count_by_state(array(
      select g.group_id
        from laneway.consumer_group g
        join laneway.queue q on q.queue_id = g.queue_id
       where g.name = p_group
         and (p_queue is null or q.name = p_queue))) c
   order by c.queue;
end $$;
