-- Insert the dedup keys of one push where a key is known or occurs twice, and return which messages are duplicates.
-- The arrays have an element per message; p_heads: the newest seq of its lane; p_scopes: the partition where keys are
-- per partition, else ''; p_expiries: when the key's window ends; p_now: windows that end until then are over.
-- Return arrays with an element per message: is_new, whether to write it; places, how many messages of its lane are
-- written up to it; and for duplicates segments, lane_ids and seqs, where the message is that has the key.
-- Locks: the keys' rows, in sorted order, through commit. The caller holds the lanes' locks.
-- Errors: LW422 a key is too long for an index.
create or replace function laneway.separate_duplicates(
  p_queues int[],
  p_scopes text[],
  p_keys text[],
  p_segments int[],
  p_lane_ids int[],
  p_heads bigint[],
  p_expiries timestamptz[],
  p_now timestamptz,
  out is_new boolean[],
  out places int[],
  out segments int[],
  out lane_ids int[],
  out seqs bigint[])
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  -- Insert each key with the seq that its message has if none is a duplicate.
  places := array(
    select row_number() over (partition by m.lane_id order by m.n)::int
      from unnest(p_lane_ids) with ordinality m (lane_id, n)
     order by m.n);
  begin
    insert into laneway.dedup_key as d (queue_id, scope, key, segment, lane_id, seq, expires_at)
    select distinct on (m.key collate "C", m.queue_id, m.scope collate "C")
           m.queue_id, m.scope, m.key, m.segment, m.lane_id, m.head + m.place, m.expires_at
      from unnest(p_queues, p_scopes, p_keys, p_segments, p_lane_ids, p_heads, places, p_expiries)
           with ordinality m (queue_id, scope, key, segment, lane_id, head, place, expires_at, n)
     where m.key is not null
     order by m.key collate "C", m.queue_id, m.scope collate "C", m.n
    on conflict (queue_id, key, scope) do update
      set segment = excluded.segment, lane_id = excluded.lane_id, seq = excluded.seq, expires_at = excluded.expires_at
      where d.expires_at <= p_now;
  exception when program_limit_exceeded then
    perform laneway.raise_long_dedup_key(p_queues, p_scopes, p_keys);
  end;

  -- A message is new if it has no key, or if the key's row has its place.
  is_new := array(
    select m.key is null or (k.lane_id = m.lane_id and k.seq = m.head + m.place)
      from unnest(p_queues, p_scopes, p_keys, p_lane_ids, p_heads, places)
           with ordinality m (queue_id, scope, key, lane_id, head, place, n)
      left join lateral (
        select d.lane_id, d.seq
          from laneway.dedup_key d
         where d.queue_id = m.queue_id
           and d.scope = m.scope
           and d.key = m.key
        offset 0) k on true
     order by m.n);

  -- Number the new messages without gaps, and correct the seqs of their keys.
  places := array(
    select sum(m.is_new::int) over (partition by m.lane_id order by m.n)::int
      from unnest(p_lane_ids, is_new) with ordinality m (lane_id, is_new, n)
     order by m.n);
  update laneway.dedup_key d
     set seq = m.head + m.place
    from unnest(p_queues, p_scopes, p_keys, p_heads, places, is_new) m (queue_id, scope, key, head, place, is_new)
   where m.is_new
     and d.queue_id = m.queue_id
     and d.scope = m.scope
     and d.key = m.key
     and d.seq <> m.head + m.place;

  -- Look up the first message of each duplicate.
  select array_agg(f.segment), array_agg(f.lane_id), array_agg(f.seq)
    into segments, lane_ids, seqs
    from (select k.segment, k.lane_id, k.seq
            from unnest(p_queues, p_scopes, p_keys, is_new) with ordinality m (queue_id, scope, key, is_new, n)
            left join lateral (
              select d.segment, d.lane_id, d.seq
                from laneway.dedup_key d
               where not m.is_new
                 and d.queue_id = m.queue_id
                 and d.scope = m.scope
                 and d.key = m.key
              offset 0) k on true
           order by m.n) f;
end $$;
