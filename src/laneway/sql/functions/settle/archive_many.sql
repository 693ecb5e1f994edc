-- Archive messages in flight: ack them and keep copies that outlive the log. The arrays have an element per message.
-- Return the index (from 0) of each message that was archived. The others, whose lease has ended, stay as they are.
-- Locks: those of lock_claims. Errors: none.
create or replace function laneway.archive_many(
  p_group_id int,
  p_tokens uuid[],
  p_segments int[],
  p_lanes int[],
  p_seqs bigint[])
returns table (idx int)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_message record;
begin
  -- No lease can start or end between the check and the move.
  perform laneway.lock_claims(p_group_id, p_lanes, p_seqs);
  for v_message in
    select u.token, u.segment, u.lane_id, u.seq, u.n
      from unnest(p_tokens, p_segments, p_lanes, p_seqs) with ordinality u (token, segment, lane_id, seq, n)
      join laneway.reader r
        on r.group_id = p_group_id
       and r.lane_id = u.lane_id
     order by u.lane_id, u.seq
  loop
    continue when not exists (
      select
        from laneway.claim c
       where c.token = v_message.token
         and c.lane_id = v_message.lane_id
         and c.pending @> v_message.seq
         and c.until > clock_timestamp());
    return query
      select v_message.n::int - 1
        from laneway.move_messages(
               p_group_id, array[v_message.segment], array[v_message.lane_id], array[v_message.seq],
               'processing', 'archived');
  end loop;
end $$;
