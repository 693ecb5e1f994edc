-- Find messages by what clients call them, in a lane and as a reader sees it: the dedup key that they were pushed with,
-- or, if they have none, their address (p_segments, p_seqs; null if the name is no address).
-- Look at messages in flight first. If several of them have the same key, because it was pushed again after the
-- deduplication window, an item means one that its lease (p_leases) covers, and items with that key one each, in order.
-- Then look where find_message_by_name does.
-- The arrays have an element per item; p_readers null: skip the item.
-- Return the items found, by index from 0. token and until are those of the claim that the message is in.
-- Locks: none; the caller holds the readers' locks. Errors: none.
create or replace function laneway.resolve_dedup_keys(
  p_readers int[],
  p_lanes int[],
  p_keys text[],
  p_segments int[],
  p_seqs bigint[],
  p_leases uuid[] default null)
returns table (idx int, segment int, seq bigint, token uuid, until timestamptz)
language plpgsql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
declare
  v_found int[] := '{}';
  v_tokens uuid[];        -- the claims that p_leases cover …
  v_leases uuid[];        -- … and the lease of each
begin
  select array_agg(t.token), array_agg(l.lease)
    into v_tokens, v_leases
    from (select distinct u.lease
            from unnest(p_leases) u (lease)
           where u.lease is not null) l
   cross join lateral unnest(laneway.lease_tokens(l.lease)) t (token);

  -- Messages in flight: first by lease and key, then the rest by key only, whatever lease they are in.
  for v_pass in 1..2 loop
    exit when cardinality(v_found) = cardinality(p_readers) - pg_catalog.num_nulls(variadic p_readers);
    for idx, segment, seq, token, until in
      with items as (
        select i.n, i.reader_id, i.key, i.lease,
               row_number() over (partition by i.reader_id, i.key, i.lease order by i.n) as nth
          from (select u.n, u.reader_id, u.key, case when v_pass = 1 then u.lease end as lease
                  from unnest(p_readers, p_keys, p_leases) with ordinality u (reader_id, key, lease, n)
                 where v_pass = 1
                    or u.n - 1 <> all (v_found)) i),
      readers as (
        select distinct u.reader_id
          from unnest(p_readers) u (reader_id)),
      in_flight as (
        select c.reader_id, c.segment, m.seq, m.key, c.token, c.until
          from readers r
         cross join lateral (
           select o.reader_id, o.segment, o.lane_id, o.first_seq, o.last_seq, o.pending, o.token, o.until
             from laneway.claim o
            where o.reader_id = r.reader_id
           offset 0) c
         cross join lateral (
           select o.seq, o.key
             from laneway.message o
            where o.segment = c.segment
              and o.lane_id = c.lane_id
              and o.seq between c.first_seq and c.last_seq
              and c.pending @> o.seq
           offset 0) m
        union all
        select v.reader_id, c.segment, v.seq, v.key, c.token, c.until
          from readers r
          join laneway.revision v on v.reader_id = r.reader_id
         cross join lateral (
           select o.segment, o.token, o.until
             from laneway.claim o
            where o.reader_id = r.reader_id
              and o.aside
              and o.pending @> v.seq) c),
      candidates as (
        select f.reader_id, f.segment, f.seq, f.key, f.token, f.until, l.lease,
               dense_rank() over (partition by f.reader_id, f.key, l.lease order by f.seq) as nth
          from in_flight f
          left join unnest(v_tokens, v_leases) l (token, lease)
            on l.token = f.token and v_pass = 1)
      select distinct on (i.n) i.n::int - 1, c.segment, c.seq, c.token, c.until
        from items i
        join candidates c
          on c.reader_id = i.reader_id
         and c.key = i.key
         and c.lease is not distinct from i.lease
         and c.nth = i.nth
       order by i.n, c.seq
    loop
      v_found := v_found || idx;
      return next;
    end loop;
  end loop;

  -- The others.
  for idx in
    select u.n::int - 1
      from unnest(p_readers) with ordinality u (reader_id, n)
     where u.reader_id is not null
       and u.n - 1 <> all (v_found)
     order by u.n
  loop
    select f.segment, f.seq
      into segment, seq
      from laneway.find_message_by_name(
             p_readers[idx + 1], p_lanes[idx + 1], p_keys[idx + 1], p_segments[idx + 1], p_seqs[idx + 1]) f;
    continue when segment is null;
    select c.token, c.until
      into token, until
      from laneway.find_claim(p_readers[idx + 1], seq) c;
    return next;
  end loop;
end $$;
