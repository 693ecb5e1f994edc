-- Return how many more messages fit into a queue with at most p_most messages that its slowest group has not finished
-- (see list_counted_groups). Other calls for the queue wait until the transaction ends.
-- Locks: an advisory lock of the queue's id in the class of consumer_group, which nothing else uses. Errors: none.
create or replace function laneway.remaining_capacity(p_queue_id int, p_most bigint) returns bigint
language plpgsql set search_path = '' as $$
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.consumer_group'::regclass::oid::int, p_queue_id);
  return greatest(
    0,
    p_most - coalesce(
      (select max(c.queued + c.processing)
         from laneway.count_by_state(laneway.list_counted_groups(p_queue_id)) c),
      0));
end $$;
