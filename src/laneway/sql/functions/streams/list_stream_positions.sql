-- Return the position of groups in each partition of a queue. p_group null: all groups. At most p_limit partitions,
-- oldest lane first.
-- place: the seq up to which the group has claimed; pending: messages ahead of it and parked ones; processing: claimed
-- messages; oldest: when the oldest message ahead was pushed; held_until: the latest end of a lease on the partition.
-- Locks: none. Errors: none.
create or replace function laneway.list_stream_positions(
  p_queue_id int, p_group text default null, p_partition text default null, p_limit int default 1000)
returns table (
  group_name text, ordered boolean, lane_id int, partition text, created_at timestamptz, base bigint, newest bigint,
  place bigint, pending bigint, processing bigint, dead bigint, oldest timestamptz, moved_at timestamptz,
  held_until timestamptz)
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
  select g.name, g.ordered, l.lane_id, l.partition, l.created_at, l.base, n.newest, p.seq,
         greatest(n.newest - p.seq - x.skipped, 0) + k.parked, c.claimed, d.dead, m.created_at, p.moved_at, c.until
    from (select o.*
            from laneway.lane o
           where o.queue_id = p_queue_id
             and (p_partition is null or o.partition = p_partition)
           order by o.lane_id
           limit greatest(p_limit, 0)) l
    join laneway.queue q on q.queue_id = l.queue_id
    cross join lateral (
      select laneway.newest_seq(l.lane_id, laneway.current_segment(q.kind <> 'unlogged')) as newest) n
    join laneway.consumer_group g on g.queue_id = q.queue_id and (p_group is null or g.name = p_group)
    cross join lateral (
      select o.reader_id
        from laneway.reader o
       where o.group_id = g.group_id
         and o.lane_id = l.lane_id) r
    cross join lateral (
      select o.segment, greatest(o.seq, l.base) as seq, o.moved_at
        from laneway.newest_progress(r.reader_id) o) p
    cross join lateral (
      select coalesce(sum(o.last_seq - greatest(o.first_seq - 1, p.seq)), 0) as skipped
        from laneway.gap o
       where o.reader_id = r.reader_id
         and o.last_seq > p.seq) x
    cross join lateral (
      select coalesce(sum(laneway.count_seqs(o.pending)), 0) as claimed, max(o.until) as until
        from laneway.claim o
       where o.reader_id = r.reader_id) c
    cross join lateral (
      select count(*) as parked
        from laneway.parked o
       where o.reader_id = r.reader_id) k
    cross join lateral (
      select count(*) as dead
        from laneway.dead_letter o
       where o.reader_id = r.reader_id) d
    left join lateral (
      select o.created_at
        from laneway.message o
       where o.segment >= p.segment
         and o.lane_id = l.lane_id
         and o.seq > p.seq
       order by o.seq
       limit 1) m on true
   order by l.lane_id, g.group_id;
$$;
