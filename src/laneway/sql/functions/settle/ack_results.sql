-- Ack messages and store the results of their handlers for p_keep. The arrays have an element per message.
-- Return the index (from 0) of each message whose lease has ended; its result is not stored.
-- Locks: those of ack_many, then the results' rows. Errors: those of ack_many.
create or replace function laneway.ack_results(
  p_tokens uuid[],
  p_lanes int[],
  p_seqs bigint[],
  p_results json[],
  p_keep interval)
returns table (idx int)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_lost int[] := array(select a.idx from laneway.ack_many(p_tokens, p_lanes, p_seqs, p_seqs) a);
begin
  insert into laneway.result (lane_id, seq, result, expires_at)
  select u.lane_id, u.seq, u.result, clock_timestamp() + p_keep
    from unnest(p_lanes, p_seqs, p_results) with ordinality u (lane_id, seq, result, n)
   where u.n - 1 <> all (v_lost)
  on conflict (lane_id, seq) do update
    set result = excluded.result, finished_at = clock_timestamp(), expires_at = excluded.expires_at;
  return query select unnest(v_lost);
end $$;
