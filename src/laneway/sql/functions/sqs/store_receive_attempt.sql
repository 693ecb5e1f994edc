-- Store for p_window which messages a receive with an attempt id returned (parallel arrays), and when: p_received, in
-- milliseconds of Unix time. Locks: the row. Errors: none.
create or replace function laneway.store_receive_attempt(
  p_queue_id int, p_attempt text, p_tokens uuid[], p_segments int[], p_lanes int[], p_seqs bigint[],
  p_window interval, p_received bigint)
returns void
language sql
set search_path = ''
as $$
  insert into laneway.receive_attempt (queue_id, attempt, tokens, segments, lanes, seqs, expires_at, received)
  values (p_queue_id, p_attempt, p_tokens, p_segments, p_lanes, p_seqs, clock_timestamp() + p_window, p_received)
  on conflict (queue_id, attempt) do update
     set tokens = excluded.tokens, segments = excluded.segments, lanes = excluded.lanes, seqs = excluded.seqs,
         expires_at = excluded.expires_at, received = excluded.received;
$$;
