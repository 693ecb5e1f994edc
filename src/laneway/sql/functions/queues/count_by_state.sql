-- Count the messages of each group by state. p_group_ids null: all groups.
-- The counts are subtractions: the messages ahead of a reader and the exceptions are known, so the backlog itself is
-- not read.
-- queued includes delayed. delayed counts messages that were parked for later, also those that a claim met before their
-- time; count_delayed adds those that no claim has met. oldest and newest: when the next message and the newest one
-- were pushed.
-- Locks: none; all counts are from one snapshot. Errors: none.
create or replace function laneway.count_by_state(p_group_ids int[] default null)
returns table (
  group_id int, queue_id int, queue text, group_name text, queued bigint, delayed bigint, processing bigint,
  acknowledged bigint, dead bigint, archived bigint, oldest timestamptz, newest timestamptz)
language sql stable
set search_path = ''
as $$
  with groups as (
    select g.group_id, g.queue_id, q.name as queue, g.name as group_name,
           laneway.current_segment(q.kind <> 'unlogged') as segment
      from laneway.consumer_group g
      join laneway.queue q on q.queue_id = g.queue_id
     where p_group_ids is null or g.group_id = any (p_group_ids)),
  readers as materialized (
    select g.group_id, r.reader_id, r.lane_id, l.base, p.seq, p.segment,
           case when r.ready then greatest(laneway.newest_seq(r.lane_id, g.segment), p.seq) else p.seq end as newest,
           r.ready
      from groups g
      join laneway.reader r on r.group_id = g.group_id
      join laneway.lane l on l.lane_id = r.lane_id
      cross join lateral (
        select greatest(n.seq, l.base) as seq, n.segment
          from laneway.newest_progress(r.reader_id) n) p),
  lanes as (
    select r.group_id,
           -- An idle reader has nothing ahead but gaps.
           sum(case when r.ready then r.newest - r.seq - g.ahead else 0 end) as ahead,
           sum(r.seq - r.base + g.settled_ahead - g.gone) as passed,
           min(o.created_at) as oldest, max(n.created_at) as newest
      from readers r
      cross join lateral (
        select coalesce(sum(g.last_seq - greatest(g.first_seq - 1, r.seq))
                        filter (where g.last_seq > r.seq), 0) as ahead,
               coalesce(sum(1)
                        filter (where g.first_seq > r.seq and not g.gone), 0) as settled_ahead,
               coalesce(sum(least(g.last_seq, r.seq) - greatest(g.first_seq - 1, r.base))
                        filter (where g.gone and g.first_seq <= r.seq and g.last_seq > r.base), 0) as gone
          from laneway.gap g
         where g.reader_id = r.reader_id) g
      left join lateral (
        select m.created_at
          from laneway.message m
         where r.ready
           and m.segment >= r.segment
           and m.lane_id = r.lane_id
           and m.seq > r.seq
         order by m.seq
         limit 1) o on true
      left join lateral (
        select m.created_at
          from laneway.message m
         where m.lane_id = r.lane_id
         order by m.seq desc
         limit 1) n on true
     group by r.group_id),
  -- Of the exceptions, those after their lane's base ("kept") are among the messages that the reader passed.
  parked as (
    select k.group_id, count(*) as all, count(*) filter (where k.available_at > clock_timestamp()) as later,
           count(*) filter (where k.seq > l.base) as kept
      from laneway.parked k
      join groups g on g.group_id = k.group_id
      join laneway.lane l on l.lane_id = k.lane_id
     group by k.group_id),
  claimed as (
    select c.group_id, sum(laneway.count_seqs(c.pending)) as all,
           sum(laneway.count_seqs(c.pending * int8multirange(int8range(l.base + 1, null)))) as kept
      from laneway.claim c
      join groups g on g.group_id = c.group_id
      join laneway.lane l on l.lane_id = c.lane_id
     group by c.group_id),
  dead as (
    select d.group_id, count(*) as all, count(*) filter (where d.seq > l.base) as kept
      from laneway.dead_letter d
      join groups g on g.group_id = d.group_id
      join laneway.lane l on l.lane_id = d.lane_id
     group by d.group_id),
  archived as (
    select a.group_id, count(*) as all, count(*) filter (where a.seq > l.base) as kept
      from laneway.archive a
      join groups g on g.group_id = a.group_id
      join laneway.lane l on l.lane_id = a.lane_id
     group by a.group_id)
  select g.group_id, g.queue_id, g.queue, g.group_name,
         (coalesce(l.ahead, 0) + coalesce(p.all, 0))::bigint, coalesce(p.later, 0), coalesce(c.all, 0)::bigint,
         (coalesce(l.passed, 0) - coalesce(p.kept, 0) - coalesce(c.kept, 0) - coalesce(d.kept, 0)
          - coalesce(a.kept, 0))::bigint,
         coalesce(d.all, 0), coalesce(a.all, 0), least(l.oldest, o.created_at), l.newest
    from groups g
    left join lanes l on l.group_id = g.group_id
    left join parked p on p.group_id = g.group_id
    left join claimed c on c.group_id = g.group_id
    left join dead d on d.group_id = g.group_id
    left join archived a on a.group_id = g.group_id
    left join lateral (
      select c.created_at
        from laneway.parked k
        cross join lateral laneway.message_content(k.reader_id, k.segment, k.lane_id, k.seq) c
       where k.group_id = g.group_id
         and k.available_at <= clock_timestamp()
       order by k.priority desc, k.available_at, k.seq
       limit 1) o on true;
$$;
