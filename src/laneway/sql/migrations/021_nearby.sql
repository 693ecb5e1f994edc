-- What every claim and the end of each would look up in a row of its own, where they are already: a queue's lease and whether it
-- records events beside its groups, where update_queue keeps them the same; and on a claim the queue, where that recorded events
-- when it was made: then its end is on record too. Waits for changes of queues that are under way.
lock table laneway.queue in exclusive mode;
alter table laneway.consumer_group add column lease interval, add column record_events boolean;
update laneway.consumer_group g set lease = q.lease, record_events = q.record_events from laneway.queue q where q.queue_id = g.queue_id;
alter table laneway.consumer_group alter column lease set not null, alter column record_events set not null;
alter table laneway.claim add column queue_id int;
update laneway.claim c set queue_id = g.queue_id from laneway.consumer_group g where g.group_id = c.group_id and g.record_events;
