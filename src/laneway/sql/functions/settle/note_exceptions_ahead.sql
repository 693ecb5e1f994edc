-- Tells a reader that gaps, retries or revisions lie ahead of it up to p_seq. The caller holds the reader's lock.
-- Locks: none of its own. Errors: none.
create or replace function laneway.note_exceptions_ahead(p_reader_id int, p_seq bigint) returns void
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_place record;
begin
  select p.ctid, p.segment, p.seq, p.exceptions_until, p.token, p.not_before into v_place
    from laneway.progress p where p.reader_id = p_reader_id order by p.step desc limit 1;
  if v_place.exceptions_until < p_seq then
    insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
    values (p_reader_id, v_place.segment, v_place.seq, p_seq, v_place.token, v_place.not_before, clock_timestamp());
    delete from laneway.progress where ctid = v_place.ctid;
  end if;
end $$;
