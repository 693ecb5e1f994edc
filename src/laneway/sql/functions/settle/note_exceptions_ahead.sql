-- Record in a reader's progress that gaps, retries or revisions lie ahead of it, up to p_seq.
-- Locks: none of its own; the caller holds the reader's lock. Errors: none.
create or replace function laneway.note_exceptions_ahead(p_reader_id int, p_seq bigint) returns void
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_progress record;
begin
  select p.place, p.segment, p.seq, p.exceptions_until, p.token, p.not_before
    into v_progress
    from laneway.newest_progress(p_reader_id) p;
  if v_progress.exceptions_until < p_seq then
    insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
    values (
      p_reader_id, v_progress.segment, v_progress.seq, p_seq, v_progress.token, v_progress.not_before,
      clock_timestamp());
    delete from laneway.progress where ctid = v_progress.place;
  end if;
end $$;
