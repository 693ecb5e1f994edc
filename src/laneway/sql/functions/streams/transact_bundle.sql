-- Do the operations of apply_kv, apply_timers and transact_stream in one transaction, all or nothing. Their arguments
-- are passed on. p_new: names of queues to create first, with p_settings; p_timer_queues and p_queues refer to them as
-- -1, -2, ….
-- Return the rows of apply_kv (part 'kv'), of apply_timers ('timer') and of transact_stream ('message'); idx counts
-- within each.
-- Locks: the rows of new queues, in the order of p_new; then those of the three functions, in that order: what waits
-- for a key keeps no partition waiting.
-- Errors: LW412 a queue to create exists; those of the three functions.
create or replace function laneway.transact_bundle(
  p_kinds text[], p_namespaces text[], p_kv_keys text[], p_values json[], p_ttls interval[], p_expects bigint[],
  p_expects_required boolean[], p_deltas numeric[], p_least numeric[], p_most numeric[], p_afters text[],
  p_limits int[],
  p_timer_queues int[], p_timer_keys text[], p_timer_ids uuid[], p_delays interval[], p_timer_partitions text[],
  p_timer_dedup_keys text[], p_timer_headers json[], p_timer_bodies json[], p_timer_guards smallint[],
  p_required uuid[],
  p_lanes int[], p_keys text[], p_segments int[], p_seqs bigint[], p_groups text[], p_leases uuid[], p_actions text[],
  p_reasons text[],
  p_queues int[], p_bodies json[], p_partitions text[], p_push_keys text[], p_headers json[], p_guards smallint[],
  p_new text[], p_settings json[])
returns table (
  part text, idx int,
  applied boolean, reason text, key text, value json, version bigint, expires_at timestamptz, updated_at timestamptz,
  more boolean,
  status text, dedup_key text, timer_id uuid, deliver_at timestamptz,
  pushed boolean, outcome text, released boolean, implied int, messages int, segment int, lane_id int, seq bigint,
  duplicate boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_queue int;
  v_row record;
begin
  for i in 1..coalesce(cardinality(p_new), 0) loop
    begin
      v_queue := laneway.create_queue(p_new[i], p_settings[i]);
    exception when sqlstate 'LW409' then
      raise exception 'queue "%" already exists', p_new[i]
        using errcode = 'LW412', hint = 'Read its options, then repeat the call.';
    end;
    p_queues := array_replace(p_queues, -i, v_queue);
    p_timer_queues := array_replace(p_timer_queues, -i, v_queue);
  end loop;

  part := 'kv';
  for idx, applied, reason, key, value, version, expires_at, updated_at, more in
    select * from laneway.apply_kv(p_kinds, p_namespaces, p_kv_keys, p_values, p_ttls, p_expects, p_expects_required,
                                   p_deltas, p_least, p_most, p_afters, p_limits)
  loop
    return next;
  end loop;

  part := 'timer';
  for idx, status, dedup_key, timer_id, deliver_at in
    select * from laneway.apply_timers(p_timer_queues, p_timer_keys, p_timer_ids, p_delays, p_timer_partitions,
                                       p_timer_dedup_keys, p_timer_headers, p_timer_bodies, p_timer_guards)
  loop
    return next;
  end loop;

  part := 'message';
  for pushed, idx, outcome, released, implied, messages, segment, lane_id, seq, duplicate in
    select * from laneway.transact_stream(p_required, p_lanes, p_keys, p_segments, p_seqs, p_groups, p_leases,
                                          p_actions, p_reasons, p_queues, p_bodies, p_partitions, p_push_keys,
                                          p_headers, p_guards)
  loop
    return next;
  end loop;
end $$;
