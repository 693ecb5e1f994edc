-- How large the bodies of some queues are, on average and at the most: by the newest p_sample messages or so, spread
-- evenly over the lanes, one of each lane at least. Costs what it samples, not what the queues hold.
-- Locks: none. Errors: none.
create or replace function laneway.payload_sizes(p_queue_ids int[], p_sample int default 1000, out average float8, out largest int)
language sql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
  with lanes as materialized (
    select l.lane_id, ceil(p_sample::float8 / count(*) over ())::int as share from laneway.lane l where l.queue_id = any (p_queue_ids))
  select coalesce(avg(m.size), 0)::float8, coalesce(max(m.size), 0)
    from lanes l
    cross join lateral (select octet_length(m.body::text) as size from laneway.message m where m.lane_id = l.lane_id order by m.seq desc limit greatest(l.share, 0)) m;
$$;
