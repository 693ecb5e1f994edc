-- Return the groups of a queue, or of all queues, whose backlog counts for the queue. That is every group but an unused
-- default group: if the queue makes its default group optional, it counts only if it is the only group or was read
-- with.
-- subscribe records that it was; a broker calls it before the group's first claim.
-- Locks: none. Errors: none.
create or replace function laneway.list_counted_groups(p_queue_id int default null) returns int[]
language sql stable
set search_path = ''
return array(
  select g.group_id
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where (p_queue_id is null or g.queue_id = p_queue_id)
     and (g.name <> 'default'
          or not q.default_group_optional
          or not exists (
            select from laneway.consumer_group o
             where o.queue_id = g.queue_id
               and o.name <> 'default')
          or exists (
            select from laneway.stream_subscription s
             where s.group_name = 'default'
               and s.queue_id in (0, g.queue_id))));
