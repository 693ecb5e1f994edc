-- Push messages inside the caller's own transaction, however long it is, through the outbox: all or none. It locks no
-- lane.
-- The maintenance leader moves the messages to their lane soon after the commit. The commit notifies it, unless another
-- did within the last tenth of a second; the leader then finds the messages by polling. Commits that notify wait for
-- each other.
-- The messages differ only in bodies and dedup keys. p_keys: one dedup key for each body.
-- Return their outbox ids, in order.
-- Locks: none.
-- Errors: LW404 unknown queue, LW413 body too large, LW422 no body, or a value that a lane could not store: a negative
-- priority, a lease or number of attempts that is not positive, a lease or delay of over 1000 years, a partition or key
-- that is too long.
create or replace function laneway.outbox_push_many(
  p_queue text, p_bodies json[], p_partition text default '', p_priority smallint default 0,
  p_delay interval default null, p_keys text[] default null, p_headers json default null, p_lease interval default null,
  p_max_attempts smallint default null)
returns bigint[]
language plpgsql
set search_path = ''
as $$
declare
  v_queue record;
  v_ids bigint[];
  v_too_long record;
  v_now_ms bigint := extract(epoch from clock_timestamp()) * 1000;
begin
  select q.queue_id, q.max_bytes, q.dedup_scope = 'partition' as keys_per_partition into v_queue
    from laneway.queue q
   where q.name = p_queue;
  if not found then
    raise exception 'queue "%" does not exist', p_queue
      using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if p_bodies is null or pg_catalog.num_nulls(variadic p_bodies) > 0 then
    raise exception 'a message for queue "%" has no body', p_queue
      using errcode = 'LW422', hint = 'For a body of JSON null, pass ''null''.';
  end if;
  if cardinality(p_keys) <> cardinality(p_bodies) then
    raise exception 'dedup keys and bodies differ in number: % and %', cardinality(p_keys), cardinality(p_bodies)
      using errcode = 'LW422', hint = 'Pass null for a message without a dedup key.';
  end if;
  if p_priority < 0 then
    raise exception 'priority must be from 0 to 32767, not %', p_priority
      using errcode = 'LW422';
  end if;
  if p_lease <= interval '0' or p_max_attempts < 1 then
    raise exception 'lease and max_attempts must be positive'
      using errcode = 'LW422', hint = 'Pass null for the settings of the queue.';
  end if;
  if laneway.exceeds_interval_limit(array[p_delay, p_lease]) then
    perform laneway.raise_long_interval(array[p_delay, p_lease]);
  end if;
  perform laneway.check_sizes(p_queue, v_queue.max_bytes, p_bodies);

  with pushed as (
    insert into laneway.outbox (queue_id, partition, priority, delay, lease, max_attempts, key, headers, body)
    select v_queue.queue_id, coalesce(p_partition, ''), coalesce(p_priority, 0::smallint), p_delay, p_lease,
           p_max_attempts, i.key, p_headers, i.body
      from unnest(p_bodies, p_keys) with ordinality i (body, key, n)
     order by i.n
    returning outbox_id)
  select coalesce(array_agg(p.outbox_id order by p.outbox_id), '{}') into v_ids
    from pushed p;

  -- Partitions and keys are stored in indexes, whose entries have room for 2704 bytes after compression. The rows above
  -- were compressed in the same way, so measure those. A key that is unique per partition shares its entry with the
  -- partition.
  if octet_length(p_partition) > 1300
     or (p_keys is not null and (select max(octet_length(k)) from unnest(p_keys) k) > 1300) then
    select o.key into v_too_long
      from laneway.outbox o
     where o.outbox_id = any (v_ids)
       and greatest(pg_catalog.pg_column_size(o.partition),
                    coalesce(pg_catalog.pg_column_size(o.key), 0)
                    + case when v_queue.keys_per_partition then pg_catalog.pg_column_size(o.partition) else 0 end)
           > 2650
     order by o.outbox_id
     limit 1;
    if found then
      perform laneway.raise_long_address(p_queue, p_partition, v_too_long.key);
    end if;
  end if;

  if cardinality(v_ids) > 0 and (select n.last_value from laneway.outbox_notice n) < v_now_ms - 100 then
    perform pg_catalog.setval('laneway.outbox_notice', v_now_ms);
    perform pg_catalog.pg_notify('laneway_outbox', '');
  end if;
  return v_ids;
end $$;
