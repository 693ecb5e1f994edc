-- Whether a crash of PostgreSQL may forget claims that were answered. A group has what applies to it beside its other settings:
-- claims of ordered groups are always durable; those of unlogged queues never, because a crash empties these queues.
-- Waits for changes of queues that are under way.
lock table laneway.queue in exclusive mode;
alter table laneway.queue add column durable_claims boolean not null default true;
alter table laneway.consumer_group add column durable_claims boolean;
update laneway.consumer_group g set durable_claims = q.kind <> 'unlogged' from laneway.queue q where q.queue_id = g.queue_id;
alter table laneway.consumer_group alter column durable_claims set not null;
