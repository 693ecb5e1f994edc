-- Count the messages with anomalies, by type and severity, among the newest p_bound anomalies that match.
-- A filter that is null matches everything.
-- Locks: none. Errors: none.
create or replace function laneway.count_anomalies(
  p_queue_ids int[] default null, p_severity text default null, p_type text default null,
  p_from timestamptz default null, p_to timestamptz default null, p_bound int default 10000)
returns table (type text, severity text, entries bigint)
language sql stable
set search_path = ''
as $$
  select m.type, m.severity, sum(case when m.seqs is null then 1 else laneway.count_seqs(m.seqs) end)::bigint
    from (select a.type, a.severity, a.seqs
            from laneway.anomaly a, laneway.policy p
           where a.at >= greatest(p_from, clock_timestamp() - p.event_retention)
             and (p_to is null or a.at <= p_to)
             and (p_queue_ids is null or a.queue_id = any (p_queue_ids))
             and (p_severity is null or a.severity = p_severity)
             and (p_type is null or a.type = p_type)
           order by a.at desc, a.anomaly_id desc
           limit greatest(p_bound, 0)) m
   group by m.type, m.severity;
$$;
