-- Return the average and the largest size of the bodies of some queues, in bytes, from a sample of their messages.
-- p_sample: about how many of the newest messages to read, spread evenly over the lanes, at least one of each lane. The
-- cost depends on the sample, not on the size of the queues.
-- Locks: none. Errors: none.
create or replace function laneway.payload_sizes(
  p_queue_ids int[],
  p_sample int default 1000,
  out average float8,
  out largest int)
language sql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
  with lanes as materialized (
    select l.lane_id, ceil(p_sample::float8 / count(*) over ())::int as share
      from laneway.lane l
     where l.queue_id = any (p_queue_ids))
  select coalesce(avg(m.size), 0)::float8, coalesce(max(m.size), 0)
    from lanes l
   cross join lateral (
     select octet_length(i.body::text) as size
       from laneway.message i
      where i.lane_id = l.lane_id
      order by i.seq desc
      limit greatest(l.share, 0)) m;
$$;
