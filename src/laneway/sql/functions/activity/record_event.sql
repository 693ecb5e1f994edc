-- Record an event that the database does not see itself, such as a refused ack: one for each message whose queue
-- records events. The arrays are parallel. Return how many were recorded.
-- Locks: none. Errors: none.
create or replace function laneway.record_event(
  p_action text, p_segments int[], p_lanes int[], p_seqs bigint[], p_tokens uuid[] default null,
  p_reason text default null)
returns bigint
language plpgsql
set search_path = ''
as $$
declare
  v_count bigint;
begin
  perform laneway.insert_event(p_action, q.queue_id, null, u.lane_id, u.segment, u.seq, u.seq,
                               p_token => u.token, p_reason => p_reason)
     from unnest(p_segments, p_lanes, p_seqs, p_tokens) u (segment, lane_id, seq, token)
     join laneway.lane l on l.lane_id = u.lane_id
     join laneway.queue q on q.queue_id = l.queue_id and q.record_events
    where p_action is not null;
  get diagnostics v_count = row_count;
  return v_count;
end $$;
