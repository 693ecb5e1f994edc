-- Make a reader skip one message ahead of it. Locks: none of its own; the caller holds the reader's lock. Errors: none.
create or replace function laneway.skip_message(p_reader_id int, p_seq bigint) returns void
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
begin
  insert into laneway.gap (reader_id, first_seq, last_seq, gone)
  values (p_reader_id, p_seq, p_seq, false)
  on conflict do nothing;
  perform laneway.note_exceptions_ahead(p_reader_id, p_seq);
end $$;
