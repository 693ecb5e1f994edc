-- Find a message by its address or dedup key, in a lane and as a reader sees it, whether or not it is in flight.
-- The first match counts, in this order: the log at the address, a revision at the address, the deduplication window,
-- dead letters, the log from 10000 messages behind the reader on. An address (p_segment, p_seq) names only messages
-- without a key.
-- Locks: none. Errors: none.
create or replace function laneway.find_message_by_name(
  p_reader_id int,
  p_lane_id int,
  p_key text,
  p_segment int,
  p_seq bigint,
  out segment int,
  out seq bigint)
language plpgsql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
#variable_conflict use_column
begin
  select m.segment, m.seq
    into segment, seq
    from laneway.message m
   where m.segment = p_segment
     and m.lane_id = p_lane_id
     and m.seq = p_seq
     and m.key is null;
  if segment is not null then
    return;
  end if;
  -- a parked message may outlive its segment
  select c.segment, v.seq
    into segment, seq
    from laneway.revision v
   cross join lateral laneway.find_claim(v.reader_id, v.seq) c
   where v.reader_id = p_reader_id
     and v.seq = p_seq
     and v.key is null
     and c.segment = p_segment;
  if segment is not null then
    return;
  end if;
  select k.segment, k.seq
    into segment, seq
    from laneway.lane l
    join laneway.queue q on q.queue_id = l.queue_id
    join laneway.dedup_key k
      on k.queue_id = l.queue_id
     and k.scope = case when q.dedup_scope = 'partition' then l.partition else '' end
     and k.key = p_key
   where l.lane_id = p_lane_id
     and k.lane_id = l.lane_id;
  if segment is not null then
    return;
  end if;
  select d.segment, d.seq
    into segment, seq
    from laneway.dead_letter d
   where d.reader_id = p_reader_id
     and (d.key = p_key or (d.key is null and d.segment = p_segment and d.seq = p_seq))
   order by d.seq desc
   limit 1;
  if segment is not null then
    return;
  end if;
  select m.segment, m.seq
    into segment, seq
    from laneway.message m
   where m.lane_id = p_lane_id
     and m.seq > laneway.reader_seq(p_reader_id) - 10000
     and m.key = p_key
   order by m.seq desc
   limit 1;
end $$;
