-- Insert one message into the dead letters; the caller removes it from where it was. All that die in one transaction
-- get the same time, so that they keep their order, in whichever order they are inserted.
-- Locks: none of its own. Errors: none.
create or replace function laneway.insert_dead_letter(
  p_group_id int,
  p_reader_id int,
  p_segment int,
  p_lane_id int,
  p_seq bigint,
  p_attempt smallint,
  p_reason text,
  p_consumer text)
returns void
language plpgsql set search_path = '' as $$
begin
  insert into laneway.dead_letter (
    reader_id, seq, segment, group_id, lane_id, partition, priority, created_at, died_at, attempt, reason, consumer,
    lease, max_attempts, key, headers, body)
  select p_reader_id, p_seq, p_segment, p_group_id, p_lane_id, c.partition, c.priority, c.created_at,
         transaction_timestamp(), p_attempt, p_reason, p_consumer,
         c.lease, c.max_attempts, c.key, c.headers, c.body
    from laneway.message_content(p_reader_id, p_segment, p_lane_id, p_seq) c;
  delete from laneway.revision
   where reader_id = p_reader_id
     and seq = p_seq;
end $$;
