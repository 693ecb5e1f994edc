-- Pushes messages that differ in their bodies and keys alone inside the caller's own transaction, all or none, however long that is: it
-- takes no lane's lock, and they are moved to their lane after the commit, within moments: whoever maintains the database is
-- notified by it, unless that was done just now and it still looks around by itself; commits that notify wait for each other.
-- Answers their places in the outbox, in order. p_keys: as many as bodies.
-- Locks: none. Errors: LW404 unknown queue, LW413 body too big, LW422 no body, or what could not be moved to a lane: a
-- priority below 0, a lease or attempts of nothing, a lease or delay of more than 1000 years, a partition or key that is too long.
create or replace function laneway.outbox_push_many(
  p_queue text, p_bodies json[], p_partition text default '', p_priority smallint default 0, p_delay interval default null, p_keys text[] default null,
  p_headers json default null, p_lease interval default null, p_max_attempts smallint default null) returns bigint[]
language plpgsql set search_path = '' as $$
declare
  v_queue record;
  v_ids bigint[];
  v_long record;
  v_now bigint := extract(epoch from clock_timestamp()) * 1000;
begin
  select q.queue_id, q.max_bytes, q.dedup_scope = 'partition' as scoped into v_queue from laneway.queue q where q.name = p_queue;
  if not found then
    raise exception 'queue "%" does not exist', p_queue using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if p_bodies is null or pg_catalog.num_nulls(variadic p_bodies) > 0 then
    raise exception 'a message for queue "%" has no body', p_queue using errcode = 'LW422', hint = 'JSON''s null is written ''null''.';
  end if;
  if cardinality(p_keys) <> cardinality(p_bodies) then
    raise exception 'there must be as many keys as bodies (%)', cardinality(p_bodies) using errcode = 'LW422';
  end if;
  if p_priority < 0 then
    raise exception 'a message cannot have the priority %', p_priority using errcode = 'LW422', hint = 'It goes from 0 to 32767.';
  end if;
  if p_lease <= interval '0' or p_max_attempts < 1 then
    raise exception 'a lease must be longer than nothing, and attempts at least one' using errcode = 'LW422';
  end if;
  if laneway.exceeds_interval_limit(array[p_delay, p_lease]) then
    perform laneway.raise_long_interval(array[p_delay, p_lease]);
  end if;
  perform laneway.check_sizes(p_queue, v_queue.max_bytes, p_bodies);
  with pushed as (
    insert into laneway.outbox (queue_id, partition, priority, delay, lease, max_attempts, key, headers, body)
    select v_queue.queue_id, coalesce(p_partition, ''), coalesce(p_priority, 0::smallint), p_delay, p_lease, p_max_attempts, i.key, p_headers, i.body
      from unnest(p_bodies, p_keys) with ordinality i (body, key, n) order by i.n returning outbox_id)
  select coalesce(array_agg(p.outbox_id order by p.outbox_id), '{}') into v_ids from pushed p;
  -- Partitions and keys are looked up in indexes, whose entries hold 2704 bytes once compressed: the row has just been
  -- compressed the same way, so that what a push takes is not refused here. Both are in one entry where keys are the partition's.
  if octet_length(p_partition) > 1300 or (p_keys is not null and (select max(octet_length(k)) from unnest(p_keys) k) > 1300) then
    select o.key into v_long from laneway.outbox o
     where o.outbox_id = any (v_ids)
       and greatest(pg_catalog.pg_column_size(o.partition), coalesce(pg_catalog.pg_column_size(o.key), 0) + case when v_queue.scoped then pg_catalog.pg_column_size(o.partition) else 0 end) > 2650
     order by o.outbox_id limit 1;
    if found then
      perform laneway.raise_long_address(p_queue, p_partition, v_long.key);
    end if;
  end if;
  if cardinality(v_ids) > 0 and (select n.last_value from laneway.outbox_notice n) < v_now - 100 then
    perform pg_catalog.setval('laneway.outbox_notice', v_now);
    perform pg_catalog.pg_notify('laneway_outbox', '');
  end if;
  return v_ids;
end $$;
