-- Finds messages by what clients call them, in a lane and as a reader sees it: the key they were pushed with, or, where
-- they have none, their address (p_segments, p_seqs; null where the name is not one). Looks at what is in hand first,
-- then at what the dedup window knows, dead letters, and the newest 10000 behind the reader. Where several in hand have one
-- key, pushed again after the dedup window, an item means one that its lease (p_leases) holds, and items of that key one each,
-- in order. token and until are those of the claim where one holds it. Answers those found, by item (0-based).
-- Locks: none; the caller holds the readers'. Errors: none.
create or replace function laneway.resolve_dedup_keys(p_readers int[], p_lanes int[], p_keys text[], p_segments int[], p_seqs bigint[], p_leases uuid[] default null)
returns table (idx int, segment int, seq bigint, token uuid, until timestamptz)
language plpgsql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  v_found int[] := '{}';
  v_tokens uuid[];                       -- of the leases that are named …
  v_leases uuid[];                       -- … and the lease of each
begin
  select array_agg(t.token), array_agg(l.lease) into v_tokens, v_leases
    from (select distinct u.lease from unnest(p_leases) u (lease) where u.lease is not null) l cross join lateral unnest(laneway.lease_tokens(l.lease)) t (token);
  -- By lease; then what is left by the key alone, as others hold it.
  for v_pass in 1..2 loop
    exit when cardinality(v_found) = (select count(*) from unnest(p_readers) u (r) where u.r is not null);
    for idx, segment, seq, token, until in
      select distinct on (i.n) i.n::int - 1, x.segment, x.seq, x.token, x.until
        from (select u.*, row_number() over (partition by u.reader_id, u.key, u.lease order by u.n) as nth
                from (select o.reader_id, o.key, o.n, case when v_pass = 1 then o.lease end as lease
                        from unnest(p_readers, p_keys, p_leases) with ordinality o (reader_id, key, lease, n) where v_pass = 1 or o.n - 1 <> all (v_found)) u) i
        join (select h.*, dense_rank() over (partition by h.reader_id, h.key, h.lease order by h.seq) as nth from (
              select c.reader_id, c.segment, m.seq, m.key, c.token, c.until, w.lease
                from (select distinct u.r from unnest(p_readers) u (r)) d
                cross join lateral (select o.* from laneway.claim o where o.reader_id = d.r offset 0) c
                left join unnest(v_tokens, v_leases) w (token, lease) on w.token = c.token and v_pass = 1
                cross join lateral (select m.seq, m.key from laneway.message m
                                     where m.segment = c.segment and m.lane_id = c.lane_id and m.seq between c.first_seq and c.last_seq and c.pending @> m.seq offset 0) m
              union all
              select v.reader_id, c.segment, v.seq, v.key, c.token, c.until, w.lease
                from (select distinct u.r from unnest(p_readers) u (r)) d
                join laneway.revision v on v.reader_id = d.r
                cross join lateral (select o.segment, o.token, o.until from laneway.claim o where o.reader_id = d.r and o.aside and o.pending @> v.seq) c
                left join unnest(v_tokens, v_leases) w (token, lease) on w.token = c.token and v_pass = 1) h) x
          on x.reader_id = i.reader_id and x.key = i.key and x.lease is not distinct from i.lease and x.nth = i.nth
       order by i.n, x.seq
    loop
      v_found := v_found || idx;
      return next;
    end loop;
  end loop;
  for idx in
    select i.n::int - 1 from unnest(p_readers) with ordinality i (reader_id, n) where i.reader_id is not null and i.n - 1 <> all (v_found) order by i.n
  loop
    segment := null;
    select m.segment, m.seq into segment, seq from laneway.message m
     where m.segment = p_segments[idx + 1] and m.lane_id = p_lanes[idx + 1] and m.seq = p_seqs[idx + 1] and m.key is null;
    if segment is null then
      -- It may have outlived its segment.
      select c.segment, v.seq into segment, seq
        from laneway.revision v cross join lateral laneway.find_claim(v.reader_id, v.seq) c
       where v.reader_id = p_readers[idx + 1] and v.seq = p_seqs[idx + 1] and v.key is null and c.segment = p_segments[idx + 1];
    end if;
    if segment is null then
      select k.segment, k.seq into segment, seq
        from laneway.lane l join laneway.queue q on q.queue_id = l.queue_id
        join laneway.dedup_key k on k.queue_id = l.queue_id and k.scope = case when q.dedup_scope = 'partition' then l.partition else '' end and k.key = p_keys[idx + 1]
       where l.lane_id = p_lanes[idx + 1] and k.lane_id = l.lane_id;
    end if;
    if segment is null then
      select d.segment, d.seq into segment, seq from laneway.dead_letter d
       where d.reader_id = p_readers[idx + 1] and (d.key = p_keys[idx + 1] or (d.key is null and d.segment = p_segments[idx + 1] and d.seq = p_seqs[idx + 1])) order by d.seq desc limit 1;
    end if;
    if segment is null then
      select m.segment, m.seq into segment, seq from laneway.message m
       where m.lane_id = p_lanes[idx + 1] and m.seq > laneway.reader_seq(p_readers[idx + 1]) - 10000 and m.key = p_keys[idx + 1] order by m.seq desc limit 1;
    end if;
    continue when segment is null;
    select c.token, c.until into token, until from laneway.find_claim(p_readers[idx + 1], seq) c;
    return next;
  end loop;
end $$;
