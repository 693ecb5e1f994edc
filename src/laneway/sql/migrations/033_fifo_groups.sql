-- Whether a group reads its queue as SQS reads a FIFO queue: it is the ordered group `default` of a queue whose name
-- ends in .fifo. Then the lease of each message ends by itself, claims take partitions in turn, and a claim may be
-- filled from several partitions.
-- Waits for changes of queues that are under way.
lock table laneway.queue in exclusive mode;
alter table laneway.consumer_group add column fifo boolean not null default false;
update laneway.consumer_group g
   set fifo = true
  from laneway.queue q
 where q.queue_id = g.queue_id
   and g.name = 'default'
   and g.ordered
   and q.name like '%.fifo';
