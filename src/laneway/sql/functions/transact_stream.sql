-- Settles messages as settle_stream does and pushes others as push_many does, all or nothing, provided that every lease
-- of p_required still holds something. Queues that take no more than their maxSize, or whose partitions rest for a
-- windowBuffer, are heeded. Answers settle_stream's rows, then push_many's (pushed true).
-- Locks: as settle_stream; room_in's, where room counts; as push_many; hold_back's, where partitions rest.
-- Errors: LW409 a queue is full, LW410 a lease is gone or something cannot be settled; those of push_many.
create or replace function laneway.transact_stream(
  p_required uuid[],
  p_lanes int[], p_keys text[], p_segments int[], p_seqs bigint[], p_groups text[], p_leases uuid[], p_actions text[], p_reasons text[],
  p_queues int[], p_bodies json[], p_partitions text[] default null, p_push_keys text[] default null, p_headers json[] default null)
returns table (pushed boolean, idx int, outcome text, released boolean, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_lease uuid;
  v_item record;
  v_lanes int[] := '{}';
begin
  foreach v_lease in array coalesce(p_required, '{}') loop
    perform from laneway.claim c where c.token = any (laneway.lease_tokens(v_lease)) and (c.until > clock_timestamp()) is true for update;
    if not found then
      raise exception 'lease % is gone', v_lease using errcode = 'LW410', hint = 'It expired or was released; nothing of the transaction happened.';
    end if;
  end loop;
  if cardinality(p_lanes) > 0 then
    for v_item in
      select s.idx, s.outcome, s.released from laneway.settle_stream(p_lanes, p_keys, p_segments, p_seqs, p_groups, p_leases, p_actions, p_reasons) s
    loop
      if v_item.outcome in ('unresolved', 'unleased', 'lease', 'committed') then
        raise exception 'message "%" cannot be settled: %', p_keys[v_item.idx + 1],
            case v_item.outcome when 'unresolved' then 'unresolvable, there is no such message' when 'unleased' then 'nobody holds it'
                                when 'committed' then 'the group has committed it already' else 'its lease is expired or another''s' end
          using errcode = 'LW410', hint = 'Nothing of the transaction happened.';
      end if;
      return query select false, v_item.idx, v_item.outcome, v_item.released, null::int, null::int, null::int, null::bigint, null::boolean;
    end loop;
  end if;
  if coalesce(cardinality(p_bodies), 0) = 0 then
    return;
  end if;
  for v_item in
    select q.queue_id, q.name, (q.options -> 'queen' ->> 'maxSize')::bigint as most,
           case when cardinality(p_queues) = 1 then cardinality(p_bodies) else (select count(*) from unnest(p_queues) u (id) where u.id = q.queue_id) end as wanted
      from laneway.queue q where q.queue_id = any (p_queues) and (q.options -> 'queen' ->> 'maxSize')::bigint > 0 order by q.queue_id
  loop
    if laneway.room_in(v_item.queue_id, v_item.most) < v_item.wanted then
      raise exception 'queue "%" is full: it takes no more than its maxSize, %', v_item.name, v_item.most
        using errcode = 'LW409', hint = 'Nothing of the transaction happened.';
    end if;
  end loop;
  for v_item in select p.* from laneway.push_many(p_queues, p_bodies, p_partitions, null, null, p_push_keys, p_headers) p loop
    if not v_item.duplicate then
      v_lanes := v_lanes || v_item.lane_id;
    end if;
    return query select true, v_item.idx, null::text, null::boolean, v_item.run, v_item.segment, v_item.lane_id, v_item.seq, v_item.duplicate;
  end loop;
  for v_item in
    select array_agg(l.lane_id) as lanes, make_interval(secs => (q.options -> 'queen' ->> 'windowBuffer')::float8) as rest
      from laneway.lane l join laneway.queue q on q.queue_id = l.queue_id
     where l.lane_id = any (v_lanes) and (q.options -> 'queen' ->> 'windowBuffer')::float8 > 0 group by q.queue_id order by q.queue_id
  loop
    perform laneway.hold_back(v_item.lanes, v_item.rest);
  end loop;
end $$;
