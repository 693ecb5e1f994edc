-- Delete expired dedup keys, at most p_limit, in the order of their place in the table. Each call continues where the
-- last one stopped, through 128 MB of the table at most. Return how many.
-- Locks: their rows, never waiting for one. Errors: none.
create or replace function laneway.sweep_dedup_keys(p_limit int default 10000) returns int
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off set enable_indexscan = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_pages bigint := pg_catalog.pg_relation_size('laneway.dedup_key') / pg_catalog.current_setting('block_size')::int;
  v_page bigint := (select p.last_value from laneway.dedup_place p);
  v_left bigint := least(v_pages, 16384);
  v_until bigint;
  v_rows tid[];
  v_count int := 0;
begin
  while v_left > 0 and v_count < p_limit loop
    if v_page >= v_pages then
      v_page := 0;
    end if;
    v_until := least(v_page + least(v_left, 1024), v_pages);
    v_rows := array(
      select k.ctid
        from laneway.dedup_key k
       where k.ctid >= format('(%s,0)', v_page)::tid
         and k.ctid < format('(%s,0)', v_until)::tid
         and k.expires_at <= v_now
       limit p_limit - v_count
         for update skip locked);
    delete from laneway.dedup_key where ctid = any (v_rows);
    v_count := v_count + cardinality(v_rows);
    if v_count >= p_limit then
      -- The limit ended the range early: continue on the page of the last row.
      v_until := split_part(trim('(' from v_rows[cardinality(v_rows)]::text), ',', 1)::bigint;
    end if;
    v_left := v_left - (v_until - v_page);
    v_page := v_until;
  end loop;
  perform pg_catalog.setval('laneway.dedup_place', v_page);
  return v_count;
end $$;
