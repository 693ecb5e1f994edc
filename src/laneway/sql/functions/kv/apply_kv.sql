-- Read and write keys, in the given order and all or nothing. The arrays have one element per operation. p_kinds:
--   'get'             one key
--   'many'            one of several keys of a getMany: counts against the limit of bytes
--   'prefix', 'keys'  the live keys that begin with p_keys, beyond p_afters, at most p_limits of them, in byte order;
--                     'keys': without values. Counts against the limit of bytes
--   'put'             p_ttls null: the key never expires
--   'delete'
--   'check'           writes nothing
--   'incr'            adds p_deltas to a number. An absent key counts as 0. Refused outside p_least … p_most. A live
--                     key keeps its expiry
-- p_expects: the version that the key must have, 0: it must not exist; null: any. A key past its expiry does not exist.
-- p_required: if the operation does not apply, nothing of the call does.
-- All 'many', 'prefix' and 'keys' of a call together return at most 4 MiB of values.
-- Return for a read each live key; for a write whether it applied and, if not, why not: 'exists', 'absent', 'version',
-- 'limit' or 'type', with the present value (0 if it is no number) and version. A put that applied returns no value.
-- more: this key and those after it were left out, because of p_limits or of the limit of bytes.
-- Locks: an advisory lock for each key that is written or checked, whether or not it exists, sorted by hash.
-- Errors: LW428 a required operation does not apply (DETAIL: its index, reason, version and value, as JSON).
create or replace function laneway.apply_kv(
  p_kinds text[], p_namespaces text[], p_keys text[], p_values json[], p_ttls interval[], p_expects bigint[],
  p_required boolean[], p_deltas numeric[], p_least numeric[], p_most numeric[], p_afters text[], p_limits int[])
returns table (
  idx int, applied boolean, reason text, key text, value json, version bigint, expires_at timestamptz,
  updated_at timestamptz, more boolean)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_kind text;
  v_row record;           -- the key as it is
  v_live boolean;         -- it exists and has not expired
  v_old numeric;
  v_sum numeric;
  v_count int;
  v_left bigint := 4194304;
begin
  -- Lock the keys that are written or checked.
  perform pg_catalog.pg_advisory_xact_lock('laneway.kv'::regclass::oid::int, h.hash)
     from (select distinct hashtext(u.namespace || '/' || u.key) as hash
             from unnest(p_kinds, p_namespaces, p_keys) u (kind, namespace, key)
            where u.kind in ('put', 'delete', 'check', 'incr')
            order by 1
           offset 0) h;
  v_now := clock_timestamp();

  for i in 1..coalesce(cardinality(p_kinds), 0) loop
    idx := i - 1;
    v_kind := p_kinds[i];
    applied := null;
    reason := null;
    key := p_keys[i];
    value := null;
    version := null;
    expires_at := null;
    updated_at := null;
    more := false;

    -- Read a list of keys.
    if v_kind in ('prefix', 'keys') then
      v_count := 0;
      for v_row in
        select k.key, case when v_kind = 'prefix' then k.value end as value, k.version, k.expires_at, k.updated_at
          from laneway.kv k
         where k.namespace = p_namespaces[i]
           and k.key >= p_keys[i]
           and (p_afters[i] is null or k.key > p_afters[i])
           and (k.expires_at > v_now or k.expires_at is null)
         order by k.key
         limit p_limits[i] + 1
      loop
        exit when not starts_with(v_row.key, p_keys[i]);
        if v_count = p_limits[i] or v_left <= 0 then
          key := null;
          value := null;
          more := true;
          return next;
          exit;
        end if;
        key := v_row.key;
        value := v_row.value;
        version := v_row.version;
        expires_at := v_row.expires_at;
        updated_at := v_row.updated_at;
        return next;
        v_count := v_count + 1;
        v_left := v_left - coalesce(octet_length(v_row.value::text), 0);
      end loop;
      continue;
    end if;

    -- Read one key. Afterwards v_live says whether it exists; then value and version are its present ones.
    if v_kind = 'many' and v_left <= 0 then
      more := true;
      return next;
      continue;
    end if;
    select k.value, k.version, k.expires_at, k.updated_at
      into v_row
      from laneway.kv k
     where k.namespace = p_namespaces[i]
       and k.key = p_keys[i];
    v_live := found and (v_row.expires_at is null or v_row.expires_at > v_now);
    if v_live then
      value := v_row.value;
      version := v_row.version;
      expires_at := v_row.expires_at;
      updated_at := v_row.updated_at;
    end if;
    if v_kind in ('get', 'many') then
      continue when not v_live;
      return next;
      if v_kind = 'many' then
        v_left := v_left - octet_length(value::text);
      end if;
      continue;
    end if;

    -- Decide whether a write applies. Afterwards reason says why not, and v_sum is the result of 'incr'.
    reason := case
      when p_expects[i] = 0 and v_live then 'exists'
      when p_expects[i] > 0 and not v_live then 'absent'
      when p_expects[i] <> version then 'version'
      when v_kind = 'delete' and p_expects[i] is null and not v_live then 'absent' end;
    if v_kind = 'incr' then
      -- Other notations of numbers, and longer ones, cannot be counted with.
      v_old := case
        when not v_live then 0
        when json_typeof(value) = 'number'
             and value::text ~ '^\s*-?[0-9]{1,200}(\.[0-9]{1,200})?([eE][+-]?[0-9]{1,2})?\s*$'
          then (value #>> '{}')::numeric end;
      v_sum := trim_scale(v_old + p_deltas[i]);
      reason := case
        when v_sum is null then 'type'
        when v_sum < p_least[i] or v_sum > p_most[i] then 'limit' end;
      if not v_live or reason = 'type' then
        value := '0';
      end if;
    end if;
    applied := reason is null;
    if not applied and p_required[i] then
      raise exception 'required operation % on key "%" does not apply (%)', idx, p_keys[i], reason
        using errcode = 'LW428',
              hint = 'Nothing was changed.',
              detail = json_build_object('index', idx, 'reason', reason, 'version', coalesce(version, 0),
                                         'value', value)::text;
    end if;

    -- Write.
    if applied and v_kind = 'delete' then
      delete from laneway.kv k
       where k.namespace = p_namespaces[i]
         and k.key = p_keys[i];
    elsif applied and v_kind in ('put', 'incr') then
      value := case v_kind when 'incr' then v_sum::text::json else p_values[i] end;
      version := nextval('laneway.kv_version');
      if v_kind = 'put' or not v_live then
        expires_at := v_now + p_ttls[i];
      end if;
      updated_at := v_now;
      insert into laneway.kv (namespace, key, value, version, expires_at, created_at, updated_at)
      values (p_namespaces[i], p_keys[i], value, version, expires_at, v_now, v_now)
      on conflict (namespace, key) do update
         set value = excluded.value,
             version = excluded.version,
             expires_at = excluded.expires_at,
             created_at = case when v_live then laneway.kv.created_at else v_now end,
             updated_at = v_now;
      if v_kind = 'put' then
        value := null;
      end if;
    end if;
    version := coalesce(version, 0);
    return next;
  end loop;
end $$;
