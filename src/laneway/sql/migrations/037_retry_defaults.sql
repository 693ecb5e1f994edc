-- New queues retry with exponential backoff; existing queues keep their settings. attempt_limit: the limit that made a
-- message a dead letter, where the consumer had its own; null: the message's or the queue's.
alter table laneway.queue
  alter column max_attempts set default 5,
  alter column backoff set default '1 second',
  alter column backoff_limit set default '10 minutes';
alter table laneway.dead_letter add column attempt_limit smallint;
