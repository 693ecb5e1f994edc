-- Store transactions and push the message of each, all or nothing. The arrays have an element per transaction;
-- p_targets may have one for all.
-- p_owners, p_keys, p_fingerprints: who sent it, the idempotency key, and a digest of the request; a key null: none.
-- p_max_attempts: of the messages; null: the queue's.
-- Return each by index from 0, with the stored transaction: 'new'; 'known', the caller has sent this request before;
-- 'mismatch', the caller has sent another request with this key; 'busy', another session is storing this key.
-- Locks: an advisory lock per idempotency key, not waiting; those of push_many. Errors: those of push_many.
create or replace function laneway.accept_transactions(
  p_queue_id int,
  p_ids uuid[],
  p_targets text[],
  p_types text[],
  p_requests json[],
  p_bodies json[],
  p_webhook_urls text[] default null,
  p_max_attempts smallint[] default null,
  p_owners text[] default null,
  p_keys text[] default null,
  p_fingerprints bytea[] default null)
returns table (idx int, outcome text, transaction_id uuid, status text, hash text, created_at timestamptz)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_new int[];             -- positions of the transactions to store, in order
  v_known laneway.gateway_key;
begin
  if p_keys is null then
    v_new := array(select generate_subscripts(p_ids, 1));
  else
    v_new := '{}';
    for i in 1..cardinality(p_ids) loop
      if p_keys[i] is null then
        v_new := v_new || i;
        continue;
      end if;
      idx := i - 1;
      transaction_id := null;
      status := null;
      hash := null;
      created_at := null;
      if not pg_catalog.pg_try_advisory_xact_lock(
               'laneway.gateway_key'::regclass::oid::int, pg_catalog.hashtext(p_owners[i] || chr(1) || p_keys[i])) then
        outcome := 'busy';
        return next;
        continue;
      end if;
      insert into laneway.gateway_key (owner, key, fingerprint, transaction_id)
      values (p_owners[i], p_keys[i], p_fingerprints[i], p_ids[i])
      on conflict do nothing;
      if found then
        v_new := v_new || i;
        continue;
      end if;
      select k.* into v_known
        from laneway.gateway_key k
       where k.owner = p_owners[i]
         and k.key = p_keys[i];
      if not found then
        -- It was committed after this statement's snapshot: the caller repeats the request.
        outcome := 'busy';
        return next;
        continue;
      end if;
      outcome := case when v_known.fingerprint = p_fingerprints[i] then 'known' else 'mismatch' end;
      transaction_id := v_known.transaction_id;
      select t.status, t.hash, t.created_at into status, hash, created_at
        from laneway.gateway_transaction t
       where t.transaction_id = v_known.transaction_id;
      if not found then
        -- Its first request is in this call, too, and is stored below.
        status := 'pending';
        created_at := v_now;
      end if;
      return next;
    end loop;
    if cardinality(v_new) = 0 then
      return;
    end if;
  end if;

  -- A partition per target, so that a process can claim the messages of one target only.
  return query
    with pushed as (
      select p.idx + g.n + 1 as place, p.segment, p.lane_id, p.seq + g.n as seq
        from laneway.push_many(
               p_queues => array[p_queue_id],
               p_bodies => array(select p_bodies[u.i] from unnest(v_new) with ordinality u (i, n) order by u.n),
               p_partitions => case
                 when cardinality(p_targets) = 1 then p_targets
                 else array(select p_targets[u.i] from unnest(v_new) with ordinality u (i, n) order by u.n) end,
               p_max_attempts => case
                 when p_max_attempts is not null
                 then array(select p_max_attempts[u.i] from unnest(v_new) with ordinality u (i, n) order by u.n) end) p
       cross join lateral generate_series(0, p.messages - 1) g (n)),
    stored as (
      insert into laneway.gateway_transaction (
        transaction_id, target, type, status, request, segment, lane_id, seq, webhook_url, created_at, updated_at)
      select p_ids[u.i], coalesce(p_targets[u.i], p_targets[1]), p_types[u.i], 'pending', p_requests[u.i],
             p.segment, p.lane_id, p.seq, p_webhook_urls[u.i], v_now, v_now
        from unnest(v_new) with ordinality u (i, n)
        join pushed p on p.place = u.n)
    select u.i - 1, 'new', p_ids[u.i], 'pending', null::text, v_now
      from unnest(v_new) u (i);
end $$;
