-- Return a digest of each lane's messages in a segment, to compare a copy with: the first and last seq, the number of
-- messages, and a checksum. The checksum is the sum, over the messages, of the first 60 bits of md5 over seq, time in
-- microseconds, key, headers and body, joined by |. Locks: none. Errors: none.
create or replace function laneway.segment_digest(p_segment int)
returns table (lane_id int, first_seq bigint, last_seq bigint, messages bigint, checksum numeric)
language sql stable
set search_path = ''
as $$
  select m.lane_id, min(m.seq), max(m.seq), count(*),
         sum(('x' || substr(md5(concat_ws(
           '|', m.seq, (extract(epoch from m.created_at) * 1000000)::bigint, coalesce(m.key, ''),
           coalesce(m.headers::text, ''), m.body::text)), 1, 15))::bit(60)::bigint)
    from laneway.message m
   where m.segment = p_segment
   group by m.lane_id;
$$;
