-- New queues take messages of up to 16 MiB; existing queues keep their limit.
alter table laneway.queue alter column max_bytes set default 16777216;
