-- Return what a reader sees of one message: its revision, else the log's row. No row if neither is kept.
-- Locks: none. Errors: none.
create or replace function laneway.message_content(p_reader_id int, p_segment int, p_lane_id int, p_seq bigint)
returns table (
  partition text,
  priority smallint,
  created_at timestamptz,
  lease interval,
  max_attempts smallint,
  key text,
  headers json,
  body json)
language plpgsql stable
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    select r.partition, r.priority, r.created_at, r.lease, r.max_attempts, r.key, r.headers, r.body
      from laneway.revision r
     where r.reader_id = p_reader_id
       and r.seq = p_seq;
  if not found then
    return query
      select l.partition, l.priority, m.created_at, m.lease, m.max_attempts, m.key, m.headers, m.body
        from laneway.message m
        join laneway.lane l on l.lane_id = m.lane_id
       where m.segment = p_segment
         and m.lane_id = p_lane_id
         and m.seq = p_seq;
  end if;
end $$;
