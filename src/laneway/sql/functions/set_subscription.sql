-- Remembers that a group begins at a moment in every queue it has not read yet. Locks: the rows. Errors: none.
create or replace function laneway.set_subscription(p_name text, p_since timestamptz) returns void
language sql set search_path = '' as $$
  delete from laneway.stream_subscription where group_name = p_name and queue_id <> 0;
  insert into laneway.stream_subscription (group_name, queue_id, mode, since) values (p_name, 0, 'time', p_since)
    on conflict (group_name, queue_id) do update set mode = 'time', since = excluded.since, created_at = clock_timestamp();
$$;
