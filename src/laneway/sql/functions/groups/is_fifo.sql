-- Return whether a group reads its queue as SQS reads a FIFO queue: it is the ordered group `default` of a queue whose
-- name ends in .fifo. Then the lease of each message ends by itself, claims take partitions in turn, and a waiter may
-- get messages of several partitions.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.is_fifo(p_queue text, p_group text, p_ordered boolean) returns boolean
language sql immutable as $$
  select p_ordered and p_group = 'default' and p_queue like '%.fifo'
$$;
