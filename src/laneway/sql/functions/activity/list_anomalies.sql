-- Return anomalies, an entry for each message: the newest p_bound that match, in the requested order.
-- p_sort: at, severity, type, queue_name or actual.
-- Locks: none. Errors: none.
create or replace function laneway.list_anomalies(
  p_queue_ids int[] default null, p_severity text default null, p_type text default null,
  p_from timestamptz default null, p_to timestamptz default null, p_sort text default 'at',
  p_descending boolean default true, p_limit int default 100, p_bound int default 10000)
returns table (
  anomaly_id bigint, event_id bigint, at timestamptz, kind text, queue_name text, message_segment int, lane_id int,
  seq bigint, consumer text, type text, severity text, description text, threshold float8, actual float8)
language sql stable
set search_path = ''
as $$
  with matching as (
    select a.*, case a.severity when 'critical' then 3 when 'warning' then 2 else 1 end as weight
      from laneway.anomaly a, laneway.policy p
     where a.at >= greatest(p_from, clock_timestamp() - p.event_retention)
       and (p_to is null or a.at <= p_to)
       and (p_queue_ids is null or a.queue_id = any (p_queue_ids))
       and (p_severity is null or a.severity = p_severity)
       and (p_type is null or a.type = p_type)
     order by a.at desc, a.anomaly_id desc
     limit greatest(p_bound, 0)),
  sorted as (
    select m.*,
           row_number() over (order by
             case when p_descending then case p_sort when 'severity' then m.weight end end desc,
             case when not p_descending then case p_sort when 'severity' then m.weight end end,
             case when p_descending
                  then case p_sort when 'type' then m.type when 'queue_name' then m.queue_name end end desc,
             case when not p_descending
                  then case p_sort when 'type' then m.type when 'queue_name' then m.queue_name end end,
             case when p_descending then case p_sort when 'actual' then m.actual end end desc nulls last,
             case when not p_descending then case p_sort when 'actual' then m.actual end end nulls last,
             case when p_descending then m.at end desc,
             case when not p_descending then m.at end,
             m.anomaly_id desc) as place
      from matching m
     order by place
     limit greatest(p_limit, 0))
  select o.anomaly_id, o.event_id, o.at, o.kind, coalesce(q.name, o.queue_name), o.message_segment, o.lane_id, s.seq,
         o.consumer, o.type, o.severity, o.description, o.threshold, o.actual
    from sorted o
    left join laneway.queue q on q.queue_id = o.queue_id
    left join lateral (
      select t.seq
        from unnest(o.seqs) r (range), generate_series(lower(r.range), upper(r.range) - 1) t (seq)
       limit greatest(p_limit, 0)) s on true
   order by o.place, s.seq
   limit greatest(p_limit, 0);
$$;
