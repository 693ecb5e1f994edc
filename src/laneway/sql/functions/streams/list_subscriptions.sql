-- Return the stored starts of all groups. queue_id 0 stands for every queue. Locks: none. Errors: none.
create or replace function laneway.list_subscriptions()
returns table (group_name text, queue_id int, mode text, since timestamptz, created_at timestamptz)
language sql stable
set search_path = ''
as $$
  select s.group_name, s.queue_id, s.mode, s.since, s.created_at
    from laneway.stream_subscription s
   order by s.group_name, s.queue_id;
$$;
