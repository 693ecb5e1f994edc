-- Queues with their settings, and the counts of the group default.
create or replace view laneway.queues as
  select q.queue_id, q.name, q.kind, q.ordered, q.lease, q.max_attempts, q.backoff, q.backoff_factor, q.backoff_limit,
         q.delay, q.dedup_window, q.dedup_scope, q.retention, q.retention_step, q.message_ttl, q.max_bytes,
         q.record_events, q.durable_claims, q.max_messages, q.rest_window, q.dead_letter_after, q.keep_dead_letters,
         q.dead_letter_queue, q.dead_letter_source, q.max_receives, q.encrypted, q.default_group_optional,
         q.individual_acks, q.expiry_backoff, q.description, q.options, q.created_at, q.updated_at,
         c.queued, c.delayed, c.processing, c.acknowledged, c.dead, c.archived, c.oldest, c.newest
    from laneway.queue q
    left join lateral (
      select n.*
        from laneway.consumer_group g
        cross join lateral laneway.count_by_state(array[g.group_id]) n
       where g.queue_id = q.queue_id
         and g.name = 'default') c on true;

comment on view laneway.queues is 'Queues with their settings, and the counts of the group default.';
comment on column laneway.queues.oldest is 'When the next message was pushed.';
comment on column laneway.queues.newest is 'When the newest message was pushed.';
