-- Read messages of partitions by their seq, as they were pushed, without a lease and without an effect on any group.
-- The arrays have one element per read: messages after p_after, at most p_bytes of bodies, and together p_total bytes
-- and p_limit messages. If there is a message, at least one is returned.
-- Return for each read how many lanes the partition has (if it is not one, nothing else), its base (the newest seq that
-- is no longer kept), its newest seq, and one row per segment with its messages as arrays, oldest first.
-- Locks: none. Errors: none.
create or replace function laneway.read_partitions(
  p_queues int[], p_partitions text[], p_after bigint[], p_bytes int[], p_total int, p_limit int default 10000)
returns table (
  idx int, lanes int, lane_id int, base bigint, newest bigint, segment int, seqs bigint[], created_at timestamptz[],
  keys text[], headers json[], bodies json[])
language plpgsql stable
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_lane record;
  v_segments int[];            -- oldest first
  v_start int;
  v_first bigint;
  v_after bigint;
  v_message record;
  v_size int;
  v_read int;                  -- bytes of this read
  v_total bigint := 0;         -- bytes and messages of all reads
  v_count int := 0;
  v_full boolean;
begin
  for i in 1..coalesce(cardinality(p_queues), 0) loop
    idx := i - 1;
    lane_id := null;
    base := null;
    newest := null;
    segment := null;
    seqs := null;
    select count(*)::int as lanes, min(l.lane_id) as lane_id, min(l.base) as base,
           bool_and(q.kind <> 'unlogged') as logged
      into v_lane
      from laneway.lane l
      join laneway.queue q on q.queue_id = l.queue_id
     where l.queue_id = p_queues[i]
       and l.partition = p_partitions[i];
    lanes := v_lane.lanes;
    if lanes <> 1 then
      return next;
      continue;
    end if;
    lane_id := v_lane.lane_id;
    base := v_lane.base;
    newest := laneway.newest_seq(lane_id, laneway.current_segment(v_lane.logged));
    v_after := p_after[i];
    v_full := v_total > 0 and (v_total >= p_total or v_count >= p_limit);
    if v_full or v_after < base or v_after >= newest then
      return next;
      continue;
    end if;

    -- Find the segment to begin with: most reads begin in one of the last.
    v_segments := array(
      select s.segment
        from laneway.segment s
       where laneway.is_logged(s.segment) = v_lane.logged
         and s.opened_at is not null
       order by s.segment);
    v_start := 1;
    for j in reverse cardinality(v_segments)..1 loop
      v_first := (
        select m.seq
          from laneway.message m
         where m.segment = v_segments[j]
           and m.lane_id = v_lane.lane_id
         order by m.seq
         limit 1);
      if v_first <= v_after + 1 then
        v_start := j;
        exit;
      end if;
    end loop;

    v_read := 0;
    for j in v_start..cardinality(v_segments) loop
      segment := v_segments[j];
      seqs := '{}';
      created_at := '{}';
      keys := '{}';
      headers := '{}';
      bodies := '{}';
      for v_message in
        select m.seq, m.created_at, m.key, m.headers, m.body
          from laneway.message m
         where m.segment = v_segments[j]
           and m.lane_id = v_lane.lane_id
           and m.seq > v_after
           and m.seq <= newest
         order by m.seq
         limit p_limit - v_count
      loop
        v_size := octet_length(v_message.body::text);
        v_full := (v_read > 0 and v_read + v_size > p_bytes[i])
               or (v_total > 0 and v_total + v_size > p_total);
        exit when v_full;
        seqs := seqs || v_message.seq;
        created_at := created_at || v_message.created_at;
        keys := keys || v_message.key;
        headers := headers || v_message.headers;
        bodies := bodies || v_message.body;
        v_read := v_read + v_size;
        v_total := v_total + v_size;
        v_count := v_count + 1;
      end loop;
      if seqs <> '{}' then
        return next;
      end if;
      exit when v_full or v_count >= p_limit;
    end loop;
    if v_read = 0 then
      segment := null;
      seqs := null;
      return next;
    end if;
  end loop;
end $$;
