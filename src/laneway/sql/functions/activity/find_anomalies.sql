-- Return the anomalies of the given events. p_xids and p_event_ids are parallel arrays.
-- Locks: none. Errors: none.
create or replace function laneway.find_anomalies(p_xids xid8[], p_event_ids bigint[])
returns table (
  event_id bigint, lane_id int, seqs int8multirange, type text, severity text, description text,
  threshold float8, actual float8)
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select u.event_id, a.lane_id, a.seqs, a.type, a.severity, a.description, a.threshold, a.actual
    from (select distinct w.xid, w.event_id
            from unnest(p_xids, p_event_ids) w (xid, event_id)) u
    join laneway.anomaly a on a.xid = u.xid and a.event_id = u.event_id
   order by a.anomaly_id;
$$;
