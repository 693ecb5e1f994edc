-- Rows that point to nothing and wait for no sweep: what verify looks for beside versions, also where a foreign key should have
-- kept them. Answers the table and how many. No orphans are the past, which outlives its queues (events, anomalies, what was published, results,
-- finished runs, schedules), and messages in the log without a lane: those of a deleted queue stay until their segment goes.
-- Locks: none. Errors: none.
create or replace function laneway.find_orphans() returns table (table_name text, rows bigint)
language sql stable set search_path = '' as $$
  select o.table_name, o.rows from (
    select 'progress', count(*) from laneway.progress x where not exists (select from laneway.reader r where r.reader_id = x.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'claim', count(*) from laneway.claim x where not exists (select from laneway.reader r where r.reader_id = x.reader_id and r.group_id = x.group_id and r.lane_id = x.lane_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'parked', count(*) from laneway.parked x where not exists (select from laneway.reader r where r.reader_id = x.reader_id and r.group_id = x.group_id and r.lane_id = x.lane_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'gap', count(*) from laneway.gap x where not exists (select from laneway.reader r where r.reader_id = x.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'retry', count(*) from laneway.retry x where not exists (select from laneway.reader r where r.reader_id = x.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'revision', count(*) from laneway.revision x where not exists (select from laneway.reader r where r.reader_id = x.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'dead_letter', count(*) from laneway.dead_letter x where not exists (select from laneway.reader r where r.reader_id = x.reader_id and r.group_id = x.group_id and r.lane_id = x.lane_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'archive', count(*) from laneway.archive x where not exists (select from laneway.reader r where r.reader_id = x.reader_id and r.group_id = x.group_id and r.lane_id = x.lane_id) and not exists (select from laneway.forgotten f where f.reader_id = x.reader_id)
    union all select 'reader', count(*) from laneway.reader x where not exists (select from laneway.progress p where p.reader_id = x.reader_id)
        or not exists (select from laneway.lane l join laneway.consumer_group g on g.queue_id = l.queue_id where l.lane_id = x.lane_id and g.group_id = x.group_id)
    union all select 'lane', count(*) from laneway.lane x where not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'consumer_group', count(*) from laneway.consumer_group x where not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'queue', count(*) from laneway.queue x where not exists (select from laneway.consumer_group g where g.queue_id = x.queue_id and g.name = 'default')
    union all select 'dedup_key', count(*) from laneway.dedup_key x where not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'outbox', count(*) from laneway.outbox x where not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'workflow', count(*) from laneway.workflow x where x.status in ('running', 'paused') and not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'workflow_step', count(*) from laneway.workflow_step x where not exists (select from laneway.workflow w where w.run_id = x.run_id)
    union all select 'consumer_activity', count(*) from laneway.consumer_activity x where not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'move_task', count(*) from laneway.move_task x where not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'receive_attempt', count(*) from laneway.receive_attempt x where not exists (select from laneway.queue q where q.queue_id = x.queue_id)
    union all select 'stream_trace', count(*) from laneway.stream_trace x where not exists (select from laneway.lane l where l.lane_id = x.lane_id)
    union all select 'segment', count(*) from laneway.segment x where x.closed_at is null and pg_catalog.to_regclass(format('laneway.message_%s', x.segment)) is null) o (table_name, rows)
   where o.rows > 0;
$$;
