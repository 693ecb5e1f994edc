-- Record a trace about a message. Return the trace's number and time.
-- Locks: none. Errors: LW404 no such partition, LW422 a value is missing or too long.
create or replace function laneway.record_trace(
  p_lane_id int, p_key text, p_group text, p_event_type text, p_names text[], p_data json)
returns table (trace_id bigint, at timestamptz)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
begin
  if p_key is null or p_group is null or p_event_type is null or p_data is null then
    raise exception 'a trace needs a message, a group, a type and data'
      using errcode = 'LW422', hint = 'Give all four.';
  end if;
  if not exists (select from laneway.lane l where l.lane_id = p_lane_id) then
    raise exception 'partition % does not exist', p_lane_id
      using errcode = 'LW404', hint = 'Use the partitionId that the message came with.';
  end if;
  return query
    insert into laneway.stream_trace as t (lane_id, key, group_name, event_type, names, data)
    values (p_lane_id, p_key, p_group, p_event_type, coalesce(p_names, '{}'), p_data)
    returning t.trace_id, t.at;
exception when program_limit_exceeded then
  perform laneway.raise_long_name(
    'a name or key of a trace', greatest(octet_length(p_key), (select max(octet_length(n)) from unnest(p_names) n)));
end $$;
