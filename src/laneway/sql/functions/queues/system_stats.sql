-- Return totals of the whole database: queues, the messages of their own groups by state, live workers, unfinished
-- workflow runs, the version of the schema, the bytes its tables use, and the version of PostgreSQL.
-- Locks: none. Errors: none.
create or replace function laneway.system_stats()
returns table (
  queues bigint, pending bigint, locked bigint, dead bigint, archived bigint, workers bigint, runs bigint, version int,
  bytes bigint, postgres text)
language sql stable
set search_path = ''
as $$
  select (select count(*) from laneway.queue),
         coalesce(c.queued, 0)::bigint, coalesce(c.processing, 0)::bigint, coalesce(c.dead, 0)::bigint,
         coalesce(c.archived, 0)::bigint,
         (select count(*) from laneway.worker w where w.state <> 'stopped'),
         (select count(*) from laneway.workflow r where r.status in ('running', 'paused')),
         (select max(m.version) from laneway.migration m),
         (select sum(pg_catalog.pg_total_relation_size(t.oid))::bigint
            from pg_catalog.pg_class t
            join pg_catalog.pg_namespace n on n.oid = t.relnamespace
           where n.nspname = 'laneway'
             and t.relkind = 'r'),
         pg_catalog.current_setting('server_version')
    from (select sum(n.queued) as queued, sum(n.processing) as processing, sum(n.dead) as dead,
                 sum(n.archived) as archived
            from laneway.count_by_state(array(
                   select g.group_id from laneway.consumer_group g where g.name = 'default')) n) c;
$$;
