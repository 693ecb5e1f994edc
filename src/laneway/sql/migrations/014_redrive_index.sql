-- Finds the queues whose dead letters go elsewhere, of which there are few among many.
create index queue_redrive on laneway.queue ((options #>> '{sqs,dead_letter_queue}')) where (options #>> '{sqs,dead_letter_queue}') is not null;
