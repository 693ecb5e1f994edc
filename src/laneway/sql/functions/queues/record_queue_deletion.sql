-- Record that a queue of that name was deleted just now. Locks: the row. Errors: none.
create or replace function laneway.record_queue_deletion(p_name text) returns void
language sql
set search_path = ''
as $$
  insert into laneway.deleted_queue (name, deleted_at)
  values (p_name, clock_timestamp())
  on conflict (name) do update
     set deleted_at = excluded.deleted_at;
$$;
