-- The groups of a stream's queue whose backlog counts: all, without the queue's own where others read it and nobody ever
-- read by its own. That somebody did is noted by subscribe, which a broker calls before it first claims for it.
-- Locks: none. Errors: none.
create or replace function laneway.counting_groups(p_queue_id int) returns int[]
language sql stable set search_path = ''
return array(
  select g.group_id from laneway.consumer_group g
   where g.queue_id = p_queue_id
     and (g.name <> 'default' or not exists (select from laneway.consumer_group o where o.queue_id = p_queue_id and o.name <> 'default')
          or exists (select from laneway.stream_subscription s where s.group_name = 'default' and s.queue_id in (0, p_queue_id))));
