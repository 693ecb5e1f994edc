-- Return whether a queue of that name was deleted within the last p_window and has not been created again.
-- Locks: none. Errors: none.
create or replace function laneway.was_queue_deleted(p_name text, p_window interval) returns boolean
language sql stable
set search_path = ''
as $$
  select exists (
           select from laneway.deleted_queue d
            where d.name = p_name
              and d.deleted_at > clock_timestamp() - p_window)
     and not exists (select from laneway.queue q where q.name = p_name);
$$;
