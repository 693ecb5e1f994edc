-- Acquire, renew, release and show locks, in the given order; each is another lock, and none depends on the others. The
-- arrays have one element per operation. A lock has up to p_limits permits, one per slot from 0. A permit is the key
-- NAME#SLOT of the namespace queen-locks; its version is the fencing token, and its value {"owner", "since"}. A permit
-- past its expiry is free.
-- p_actions:
--   'acquire'  acquire the permit of a free slot. An owner that has a permit already keeps that one
--   'renew'    give the permit of p_slots another expiry and token. Its token must be p_tokens, or its owner p_owners
--   'release'  free the permit of p_slots with the token p_tokens
--   'get'      return the permits only
-- Return first a row for each operation: applied; already: the owner had the permit before. If it did not apply, reason
-- is 'held' (no slot is free), 'lost' (the permit is not the one named) or 'contended' (another call wrote the slot
-- during this one). For 'get', and for what did not apply, a row with applied null follows for each permit that is not
-- free, by slot.
-- Locks: an advisory lock for each name that is not only shown, sorted by hash; then those of apply_kv. Errors: none.
create or replace function laneway.apply_locks(
  p_actions text[], p_names text[], p_owners text[], p_ttls interval[], p_limits int[], p_slots int[],
  p_tokens bigint[])
returns table (
  idx int, applied boolean, already boolean, reason text, slot int, token bigint, owner text, since text,
  expires_at timestamptz, renewed_at timestamptz)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_count int := coalesce(cardinality(p_actions), 0);
  v_permits jsonb;                                  -- of one operation, as they are returned
  v_permit jsonb;
  v_found jsonb[] := array_fill('[]'::jsonb, array[coalesce(cardinality(p_actions), 0)]);
  v_slots int[] := p_slots;
  v_already bigint[] := array_fill(null::bigint, array[coalesce(cardinality(p_actions), 0)]);
  v_reasons text[] := array_fill(null::text, array[coalesce(cardinality(p_actions), 0)]);
  -- the writes
  v_writes int[] := '{}';                           -- of which operation each is
  v_kinds text[] := '{}';
  v_keys text[] := '{}';
  v_values json[] := '{}';
  v_ttls interval[] := '{}';
  v_expects bigint[] := '{}';
  v_tokens bigint[] := array_fill(null::bigint, array[coalesce(cardinality(p_actions), 0)]);
  v_write record;
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.kv'::regclass::oid::int, h.hash)
     from (select distinct hashtext('queen-locks/' || u.name) as hash
             from unnest(p_actions, p_names) u (action, name)
            where u.action <> 'get'
            order by 1
           offset 0) h;
  v_now := clock_timestamp();

  -- Choose what to write. Afterwards v_found has the permits of each operation, and v_writes those to write.
  for i in 1..v_count loop
    select coalesce(jsonb_agg(jsonb_build_object(
             'slot', k.slot, 'token', k.version, 'owner', k.value ->> 'owner',
             'since', coalesce(k.value ->> 'since', laneway.utc_text(k.updated_at)),
             'expires_at', k.expires_at, 'renewed_at', k.updated_at) order by k.slot), '[]')
      into v_permits
      from (select substr(o.key, length(p_names[i]) + 2)::int as slot, o.version, o.expires_at, o.updated_at,
                   case when json_typeof(o.value) = 'object' then o.value else '{}' end as value
              from laneway.kv o
             where o.namespace = 'queen-locks'
               and o.key >= p_names[i] || '#'
               and o.key < p_names[i] || '$'        -- the character after #
               and substr(o.key, length(p_names[i]) + 2) ~ '^(0|[1-9][0-9]{0,3})$'
               and (o.expires_at > v_now or o.expires_at is null)) k
     where case p_actions[i]
             when 'get' then true
             when 'acquire' then k.slot < p_limits[i]
             else k.slot = p_slots[i] end;
    v_found[i] := v_permits;
    case p_actions[i]
      when 'get' then
        continue;
      when 'acquire' then
        v_permit := (
          select p from jsonb_array_elements(v_permits) p where p ->> 'owner' = p_owners[i] limit 1);
        if v_permit is not null then
          v_already[i] := (v_permit ->> 'token')::bigint;
          v_slots[i] := (v_permit ->> 'slot')::int;
          continue;
        end if;
        v_slots[i] := (
          select s
            from generate_series(0, p_limits[i] - 1) s
           where not exists (select from jsonb_array_elements(v_permits) p where (p ->> 'slot')::int = s)
           order by s
           limit 1);
        if v_slots[i] is null then
          v_reasons[i] := 'held';
          continue;
        end if;
        v_kinds := v_kinds || 'put'::text;
        v_values := v_values || json_build_object('owner', p_owners[i]);
        v_ttls := v_ttls || p_ttls[i];
        v_expects := v_expects || 0::bigint;
      when 'renew' then
        v_permit := v_permits -> 0;
        if v_permit is null
           or ((v_permit ->> 'token')::bigint <> p_tokens[i]
               and (v_permit ->> 'owner' = p_owners[i]) is not true) then
          v_reasons[i] := 'lost';
          continue;
        end if;
        v_kinds := v_kinds || 'put'::text;
        v_values := v_values || json_build_object('owner', v_permit ->> 'owner', 'since', v_permit ->> 'since');
        v_ttls := v_ttls || p_ttls[i];
        v_expects := v_expects || (v_permit ->> 'token')::bigint;
      when 'release' then
        v_kinds := v_kinds || 'delete'::text;
        v_values := v_values || null::json;
        v_ttls := v_ttls || null::interval;
        v_expects := v_expects || p_tokens[i];
    end case;
    v_writes := v_writes || i;
    v_keys := v_keys || (p_names[i] || '#' || v_slots[i]);
  end loop;

  -- Write. Afterwards v_tokens has the tokens of what applied, and v_reasons says why the rest did not.
  if v_writes <> '{}' then
    v_count := cardinality(v_writes);
    for v_write in
      select v_writes[w.idx + 1] as n, w.applied, w.version
        from laneway.apply_kv(
               v_kinds, array_fill('queen-locks'::text, array[v_count]), v_keys, v_values, v_ttls, v_expects,
               array_fill(false, array[v_count]), array_fill(null::numeric, array[v_count]),
               array_fill(null::numeric, array[v_count]), array_fill(null::numeric, array[v_count]),
               array_fill(null::text, array[v_count]), array_fill(null::int, array[v_count])) w
    loop
      if v_write.applied then
        v_tokens[v_write.n] := v_write.version;
      else
        v_reasons[v_write.n] := case p_actions[v_write.n] when 'acquire' then 'contended' else 'lost' end;
      end if;
    end loop;
  end if;

  -- Return what became of each operation.
  for i in 1..coalesce(cardinality(p_actions), 0) loop
    return query
      select i - 1, v_reasons[i] is null, v_already[i] is not null, v_reasons[i], v_slots[i],
             coalesce(v_already[i], v_tokens[i]), null::text, null::text, null::timestamptz, null::timestamptz;
    continue when v_reasons[i] is null and p_actions[i] <> 'get';
    return query
      select i - 1, null::boolean, null::boolean, null::text, (p ->> 'slot')::int, (p ->> 'token')::bigint,
             p ->> 'owner', p ->> 'since', (p ->> 'expires_at')::timestamptz, (p ->> 'renewed_at')::timestamptz
        from jsonb_array_elements(v_found[i]) p
       order by (p ->> 'slot')::int;
  end loop;
end $$;
