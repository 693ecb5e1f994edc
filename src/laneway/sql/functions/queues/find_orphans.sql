-- Return the tables with rows that refer to rows that do not exist, which no sweep will delete, and how many: verify
-- reports them. It does not trust foreign keys.
-- Rows about the past are no orphans, because they outlive their queues: events, anomalies, published epochs, results,
-- finished runs and schedules. Nor are log messages without a lane: those of a deleted queue stay until their segment
-- is dropped.
-- Locks: none. Errors: none.
create or replace function laneway.find_orphans()
returns table (table_name text, rows bigint)
language sql stable
set search_path = ''
as $$
  with readerless as (
    -- Tables that refer to a reader. Some repeat its group and lane, which must then be the reader's.
    select t.table_name
      from (select 'progress', x.reader_id, null::int, null::int from laneway.progress x
            union all
            select 'claim', x.reader_id, x.group_id, x.lane_id from laneway.claim x
            union all
            select 'parked', x.reader_id, x.group_id, x.lane_id from laneway.parked x
            union all
            select 'gap', x.reader_id, null, null from laneway.gap x
            union all
            select 'retry', x.reader_id, null, null from laneway.retry x
            union all
            select 'revision', x.reader_id, null, null from laneway.revision x
            union all
            select 'dead_letter', x.reader_id, x.group_id, x.lane_id from laneway.dead_letter x
            union all
            select 'archive', x.reader_id, x.group_id, x.lane_id from laneway.archive x)
           t (table_name, reader_id, group_id, lane_id)
     where not exists (
             select from laneway.reader r
              where r.reader_id = t.reader_id
                and r.group_id = coalesce(t.group_id, r.group_id)
                and r.lane_id = coalesce(t.lane_id, r.lane_id))
       and not exists (select from laneway.forgotten f where f.reader_id = t.reader_id)),
  queueless as (
    -- Tables that refer to a queue.
    select t.table_name
      from (select 'lane', x.queue_id from laneway.lane x
            union all
            select 'consumer_group', x.queue_id from laneway.consumer_group x
            union all
            select 'dedup_key', x.queue_id from laneway.dedup_key x
            union all
            select 'outbox', x.queue_id from laneway.outbox x
            union all
            select 'workflow', x.queue_id from laneway.workflow x where x.status in ('running', 'paused')
            union all
            select 'consumer_activity', x.queue_id from laneway.consumer_activity x
            union all
            select 'move_task', x.queue_id from laneway.move_task x
            union all
            select 'receive_attempt', x.queue_id from laneway.receive_attempt x)
           t (table_name, queue_id)
     where not exists (select from laneway.queue q where q.queue_id = t.queue_id)),
  others as (
    select 'reader'
      from laneway.reader x
     where not exists (select from laneway.progress p where p.reader_id = x.reader_id)
        or not exists (
             select from laneway.lane l
               join laneway.consumer_group g on g.queue_id = l.queue_id
              where l.lane_id = x.lane_id
                and g.group_id = x.group_id)
    union all
    select 'queue'
      from laneway.queue x
     where not exists (
       select from laneway.consumer_group g
        where g.queue_id = x.queue_id
          and g.name = 'default')
    union all
    select 'workflow_step'
      from laneway.workflow_step x
     where not exists (select from laneway.workflow w where w.run_id = x.run_id)
    union all
    select 'stream_trace'
      from laneway.stream_trace x
     where not exists (select from laneway.lane l where l.lane_id = x.lane_id)
    union all
    select 'segment'
      from laneway.segment x
     where x.closed_at is null
       and pg_catalog.to_regclass(format('laneway.message_%s', x.segment)) is null)
  select o.table_name, count(*)
    from (select t.table_name from readerless t
          union all
          select t.table_name from queueless t
          union all
          select t.* from others t) o (table_name)
   group by o.table_name;
$$;
