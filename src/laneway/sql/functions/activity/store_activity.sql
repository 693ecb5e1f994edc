-- Store what detectors found in the events between the snapshots p_from and p_to, once. Return false and store nothing
-- if another process has stored past p_from already.
-- p_anomalies, p_consumers: JSON arrays of rows of anomaly and of consumer_activity. Only the first 500 characters of a
-- consumer's name are stored, because an index cannot store more.
-- Locks: the row of activity; rows of consumer_activity, in order. Errors: none.
create or replace function laneway.store_activity(
  p_from pg_snapshot, p_to pg_snapshot, p_anomalies json, p_consumers json)
returns boolean
language plpgsql
set search_path = ''
as $$
begin
  update laneway.activity
     set seen = p_to
   where seen::text = p_from::text;
  if not found then
    return false;
  end if;

  insert into laneway.anomaly (xid, event_id, at, type, severity, description, threshold, actual, kind, queue_id,
                               queue_name, message_segment, lane_id, seqs, consumer)
  select a.xid, a.event_id, a.at, a.type, a.severity, a.description, a.threshold, a.actual, a.kind, a.queue_id,
         a.queue_name, a.message_segment, a.lane_id, a.seqs, a.consumer
    from json_to_recordset(p_anomalies)
         a (xid xid8, event_id bigint, at timestamptz, type text, severity text, description text, threshold float8,
            actual float8, kind text, queue_id int, queue_name text, message_segment int, lane_id int,
            seqs int8multirange, consumer text);

  insert into laneway.consumer_activity as c (queue_id, consumer, taken, last_at)
  select t.queue_id, t.consumer, t.taken, t.last_at
    from (select t.queue_id, left(t.consumer, 500) as consumer, sum(t.taken) as taken, max(t.last_at) as last_at
            from json_to_recordset(p_consumers) t (queue_id int, consumer text, taken bigint, last_at timestamptz)
           group by 1, 2) t
   where exists (select from laneway.queue q where q.queue_id = t.queue_id for key share)
   order by t.queue_id, t.consumer
      on conflict (queue_id, consumer) do update
     set taken = c.taken + excluded.taken, last_at = greatest(c.last_at, excluded.last_at);
  return true;
end $$;
