-- Rows that point to nothing and wait for no sweep: what verify looks for beside versions. Answers the table and how many.
-- Locks: none. Errors: none.
create or replace function laneway.orphans() returns table (table_name text, rows bigint)
language sql stable set search_path = '' as $$
  select o.table_name, o.rows from (
    select 'progress', count(*) from laneway.progress p where not exists (select from laneway.reader r where r.reader_id = p.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = p.reader_id)
    union all select 'claim', count(*) from laneway.claim c where not exists (select from laneway.reader r where r.reader_id = c.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = c.reader_id)
    union all select 'parked', count(*) from laneway.parked k where not exists (select from laneway.reader r where r.reader_id = k.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = k.reader_id)
    union all select 'gap', count(*) from laneway.gap g where not exists (select from laneway.reader r where r.reader_id = g.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = g.reader_id)
    union all select 'dead_letter', count(*) from laneway.dead_letter d where not exists (select from laneway.reader r where r.reader_id = d.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = d.reader_id)
    union all select 'archive', count(*) from laneway.archive a where not exists (select from laneway.reader r where r.reader_id = a.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = a.reader_id)
    union all select 'revision', count(*) from laneway.revision v where not exists (select from laneway.reader r where r.reader_id = v.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = v.reader_id)
    union all select 'retry', count(*) from laneway.retry t where not exists (select from laneway.reader r where r.reader_id = t.reader_id) and not exists (select from laneway.forgotten f where f.reader_id = t.reader_id)
    union all select 'dedup_key', count(*) from laneway.dedup_key k where not exists (select from laneway.queue q where q.queue_id = k.queue_id)
    union all select 'reader', count(*) from laneway.reader r where not exists (select from laneway.progress p where p.reader_id = r.reader_id)
    union all select 'outbox', count(*) from laneway.outbox b where not exists (select from laneway.queue q where q.queue_id = b.queue_id)) o (table_name, rows)
   where o.rows > 0;
$$;
