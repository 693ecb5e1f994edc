-- Return queues with their settings and groups, by name. p_names null: all queues. The group_ arrays are parallel,
-- oldest group first. Locks: none. Errors: none.
create or replace function laneway.list_queues(p_names text[] default null)
returns table (
  queue_id int, name text, created_at timestamptz, updated_at timestamptz, kind text, ordered boolean, lease interval,
  max_attempts smallint, backoff interval, backoff_factor float8, backoff_limit interval, delay interval,
  dedup_window interval, dedup_scope text, retention interval, retention_step interval, message_ttl interval,
  max_bytes int, record_events boolean, durable_claims boolean, max_messages bigint, rest_window interval,
  dead_letter_after interval, keep_dead_letters boolean, dead_letter_queue text, dead_letter_source text,
  max_receives int, encrypted boolean, default_group_optional boolean, individual_acks boolean, expiry_backoff boolean,
  description text, options json, guards smallint, group_ids int[], group_names text[], group_ordered boolean[],
  group_created_at timestamptz[])
language sql stable
set search_path = ''
as $$
  select q.queue_id, q.name, q.created_at, q.updated_at, q.kind, q.ordered, q.lease, q.max_attempts, q.backoff,
         q.backoff_factor, q.backoff_limit, q.delay, q.dedup_window, q.dedup_scope, q.retention, q.retention_step,
         q.message_ttl, q.max_bytes, q.record_events, q.durable_claims, q.max_messages, q.rest_window,
         q.dead_letter_after, q.keep_dead_letters, q.dead_letter_queue, q.dead_letter_source, q.max_receives,
         q.encrypted, q.default_group_optional, q.individual_acks, q.expiry_backoff, q.description, q.options, q.guards,
         g.ids, g.names, g.ordered, g.created_at
    from laneway.queue q
    cross join lateral (
      select array_agg(o.group_id order by o.group_id) as ids,
             array_agg(o.name order by o.group_id) as names,
             array_agg(o.ordered order by o.group_id) as ordered,
             array_agg(o.created_at order by o.group_id) as created_at
        from laneway.consumer_group o
       where o.queue_id = q.queue_id) g
   where p_names is null or q.name = any (p_names)
   order by q.name;
$$;
