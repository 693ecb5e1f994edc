-- Count the partitions of each queue. Locks: none. Errors: none.
create or replace function laneway.count_partitions()
returns table (queue_id int, lanes bigint)
language sql stable
set search_path = ''
as $$
  select l.queue_id, count(distinct l.partition)
    from laneway.lane l
   group by l.queue_id;
$$;
