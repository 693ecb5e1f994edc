-- Return the partitions of some queues by name, each once, at most p_limit. Locks: none. Errors: none.
create or replace function laneway.list_partitions(p_queue_ids int[], p_limit int default 1000) returns setof text
language sql stable
set search_path = ''
as $$
  select distinct l.partition
    from laneway.lane l
   where l.queue_id = any (p_queue_ids)
   order by l.partition
   limit greatest(p_limit, 0);
$$;
