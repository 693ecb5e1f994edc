-- Push one message inside the caller's own transaction, through the outbox: see outbox_push_many. Return its outbox id.
-- Locks: none. Errors: those of outbox_push_many.
create or replace function laneway.outbox_push(
  p_queue text, p_body json, p_partition text default '', p_priority smallint default 0, p_delay interval default null,
  p_key text default null, p_headers json default null, p_lease interval default null,
  p_max_attempts smallint default null)
returns bigint
language sql
set search_path = ''
as $$
  select (laneway.outbox_push_many(p_queue, array[p_body], p_partition, p_priority, p_delay, array[p_key], p_headers,
                                   p_lease, p_max_attempts))[1];
$$;
