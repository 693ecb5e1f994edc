-- Settles messages in hand and keeps copies of them beyond the log's retention: only where the token still holds
-- the message in time. Answers the items that were archived (0-based); the others are left as they are.
-- Locks: lock_claims'. Errors: none.
create or replace function laneway.archive_many(p_group_id int, p_tokens uuid[], p_segments int[], p_lanes int[], p_seqs bigint[]) returns table (idx int)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_item record;
begin
  -- Nobody can be handed a message between the look and the move.
  perform laneway.lock_claims(p_group_id, p_lanes, p_seqs);
  for v_item in
    select u.token, u.segment, u.lane_id, u.seq, u.n from unnest(p_tokens, p_segments, p_lanes, p_seqs) with ordinality u (token, segment, lane_id, seq, n)
      join laneway.reader r on r.group_id = p_group_id and r.lane_id = u.lane_id order by u.lane_id, u.seq
  loop
    continue when not exists (select from laneway.claim c where c.token = v_item.token and c.lane_id = v_item.lane_id and c.pending @> v_item.seq and c.until > clock_timestamp());
    return query select v_item.n::int - 1 from laneway.move_messages(p_group_id, array[v_item.segment], array[v_item.lane_id], array[v_item.seq], 'processing', 'archived');
  end loop;
end $$;
