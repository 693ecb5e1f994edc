-- Insert one event, at the end of the event log: what happened (p_action) in which queue and, where that applies, to
-- which group and to which messages, p_first .. p_last of a lane.
-- p_segment: the segment of the messages; p_since: when the claim that the event ends began; p_at: when it happened.
-- For everything but push_many, push_mixed, the acks and the claims: they insert events within a statement of theirs,
-- because a call per event would cost as much as the rest of their work.
-- Locks: none. Errors: none.
create or replace function laneway.insert_event(
  p_action text, p_queue_id int, p_group_id int default null,
  p_lane_id int default null, p_segment int default null, p_first bigint default null, p_last bigint default null,
  p_attempt smallint default null, p_token uuid default null, p_consumer text default null,
  p_since timestamptz default null, p_reason text default null, p_detail json default null,
  p_at timestamptz default clock_timestamp())
returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
                             attempt, token, consumer, since, reason, detail)
  values (laneway.current_segment(true), p_at, p_action, p_queue_id, p_group_id, p_lane_id, p_segment, p_first, p_last,
          p_attempt, p_token, p_consumer, p_since, p_reason, p_detail);
end $$;
