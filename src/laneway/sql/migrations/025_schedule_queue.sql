-- A periodic job is known by its name and its queue: two programs may have one of the same name on queues of their own.
alter table laneway.schedule drop constraint schedule_pkey, add primary key (name, queue_id);
