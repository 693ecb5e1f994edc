-- push_mixed's keys where not every one is new: a key is taken unless a message has it whose window is not over, or
-- an earlier item of the same call. The arrays have an element per item; p_heads is where its lane ends. Answers arrays per item too:
-- take, whether it is to be written; places, how many of its lane are written up to it; and, of those that are not,
-- segments, lanes and seqs, where the message is that has the key.
-- Locks: the keys' rows, in sorted order, through commit; the caller holds the lanes'. Errors: LW422 a key is too long.
create or replace function laneway.insert_dedup_keys(
  p_queues int[], p_scopes text[], p_keys text[], p_segments int[], p_lanes int[], p_heads bigint[], p_expiries timestamptz[], p_now timestamptz,
  out take boolean[], out places int[], out segments int[], out lanes int[], out seqs bigint[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  -- Each gets the place that it has if no key is taken.
  places := array(select (row_number() over (partition by i.lane_id order by i.n))::int from unnest(p_lanes) with ordinality i (lane_id, n) order by i.n);
  begin
    insert into laneway.dedup_key as d (queue_id, scope, key, segment, lane_id, seq, expires_at)
    select distinct on (i.key collate "C", i.queue_id, i.scope collate "C") i.queue_id, i.scope, i.key, i.segment, i.lane_id, i.head + i.place, i.expires_at
      from unnest(p_queues, p_scopes, p_keys, p_segments, p_lanes, p_heads, places, p_expiries) with ordinality i (queue_id, scope, key, segment, lane_id, head, place, expires_at, n)
     where i.key is not null order by i.key collate "C", i.queue_id, i.scope collate "C", i.n
    on conflict (queue_id, key, scope) do update
      set segment = excluded.segment, lane_id = excluded.lane_id, seq = excluded.seq, expires_at = excluded.expires_at
      where d.expires_at <= p_now;
  exception when program_limit_exceeded then
    perform laneway.raise_long_dedup_key(p_queues, p_scopes, p_keys);
  end;
  take := array(select i.key is null or (k.lane_id = i.lane_id and k.seq = i.head + i.place)
                  from unnest(p_queues, p_scopes, p_keys, p_lanes, p_heads, places) with ordinality i (queue_id, scope, key, lane_id, head, place, n)
                  left join lateral (select k.lane_id, k.seq from laneway.dedup_key k where k.queue_id = i.queue_id and k.scope = i.scope and k.key = i.key offset 0) k on true
                 order by i.n);
  places := array(select (sum(i.take::int) over (partition by i.lane_id order by i.n))::int from unnest(p_lanes, take) with ordinality i (lane_id, take, n) order by i.n);
  update laneway.dedup_key d set seq = i.head + i.place
    from unnest(p_queues, p_scopes, p_keys, p_heads, places, take) i (queue_id, scope, key, head, place, take)
   where i.take and d.queue_id = i.queue_id and d.scope = i.scope and d.key = i.key and d.seq <> i.head + i.place;
  select array_agg(k.segment), array_agg(k.lane_id), array_agg(k.seq) into segments, lanes, seqs
    from (select k.segment, k.lane_id, k.seq from unnest(p_queues, p_scopes, p_keys, take) with ordinality i (queue_id, scope, key, take, n)
            left join lateral (select k.segment, k.lane_id, k.seq from laneway.dedup_key k
                                where not i.take and k.queue_id = i.queue_id and k.scope = i.scope and k.key = i.key offset 0) k on true
           order by i.n) k;
end $$;
