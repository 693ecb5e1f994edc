-- Move the readers of some lanes of a shared group over their next messages, the oldest of all lanes first. Return
-- those that can be delivered; park those that are delayed.
-- p_readers, p_lanes: the lanes, of one priority. p_limit: how many messages to deliver at most. p_read_far: many
-- delayed messages may lie together, so read further. p_mark_idle: mark readers idle that have nothing left.
-- Result: picked: the messages, in the order of delivery; the caller leases them in the same transaction (see
-- insert_claims). locked_elsewhere: a reader that another transaction has locked, or null. locked: this transaction
-- has locked a reader. parked: delayed messages were parked; null: nothing was read. more: the lanes may have more to
-- deliver.
-- Locks: readers' advisory locks; never waits for one. Errors: none.
create or replace function laneway.pick_unread(
  p_group_id int,
  p_readers int[],
  p_lanes int[],
  p_limit int,
  p_now timestamptz,
  p_read_far boolean,
  p_mark_idle boolean,
  out picked laneway.picked_message[],
  out locked_elsewhere int,
  out locked boolean,
  out parked boolean,
  out more boolean)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  c_no_end constant bigint := 9223372036854775807;
  v_readers int[];                       -- those that this transaction has locked
  v_lanes int[];
  v_position record;                     -- arrays: how far each has claimed
  v_from bigint[];                       -- after which and up to which message to read of each lane
  v_upto bigint[];
  v_span record;
  v_read_limit int;                      -- messages read of each lane
  v_read record;                         -- arrays: the messages that the readers move over
  v_delayed int;
begin
  picked := '{}';
  more := false;

  -- Part 1: lock the lanes, then read the positions, in a statement after the locks. A reader with gaps ahead reads up
  -- to the next gap.
  select array_agg(t.reader_id) filter (where t.locked), array_agg(t.lane_id) filter (where t.locked),
         min(t.reader_id) filter (where not t.locked)
    into v_readers, v_lanes, locked_elsewhere
    from (select u.reader_id, u.lane_id, laneway.try_lock_reader(u.reader_id) as locked
            from unnest(p_readers, p_lanes) u (reader_id, lane_id)
          offset 0) t;
  locked := v_readers is not null;
  if not locked then
    return;
  end if;
  select array_agg(p.place) as places, array_agg(p.segment) as segments, array_agg(p.seq) as seqs,
         array_agg(p.exceptions_until) as exceptions_until, min(p.segment) as oldest,
         bool_or(p.exceptions_until > p.seq) as has_exceptions
    into v_position
    from unnest(v_readers) u (reader_id)
    cross join lateral laneway.newest_progress(u.reader_id) p;
  v_from := v_position.seqs;
  v_upto := array_fill(c_no_end, array[cardinality(v_readers)]);
  if v_position.has_exceptions then
    for i in 1..cardinality(v_readers) loop
      if v_position.exceptions_until[i] > v_from[i] then
        v_span := laneway.next_span(v_readers[i], v_from[i]);
        v_from[i] := v_span.from_seq;
        v_upto[i] := v_span.to_seq;
      end if;
    end loop;
  end if;

  -- Part 2: find the oldest p_limit messages that can be delivered, and the delayed ones before them. Messages younger
  -- than the end of a lane that was not read to its end are left for the next call.
  v_read_limit := case
    when p_read_far then 2000
    when cardinality(v_readers) = 1 then p_limit
    else least(p_limit, 2 * p_limit / cardinality(v_readers) + 4)
  end;
  select array_agg(t.i) as i, array_agg(t.seq) as seqs, array_agg(t.segment) as segments,
         array_agg(t.delayed) as delayed, array_agg(t.lease) as leases,
         count(*)::int as count, count(*) filter (where t.delayed)::int as delayed_count
    into v_read
    from (with candidate as materialized (
            select u.i::int, m.segment, m.seq, m.created_at, m.lease, coalesce(m.deliver_at > p_now, false) as delayed
              from unnest(v_lanes, v_from, v_upto, v_position.segments)
                   with ordinality u (lane_id, from_seq, to_seq, segment, i)
              cross join lateral (
                select m.segment, m.seq, m.created_at, m.deliver_at, m.lease
                  from laneway.message m
                 where m.segment >= v_position.oldest
                   and m.lane_id = u.lane_id
                   and m.segment >= u.segment
                   and m.seq > u.from_seq
                   and m.seq <= u.to_seq
                 order by m.seq
                 limit v_read_limit) m),
          horizon as (
            select min(e.last_at) as upto
              from (select c.i, count(*) as count, max(c.created_at) as last_at
                      from candidate c
                     group by c.i) e
             where e.count = v_read_limit
                or v_upto[e.i] < c_no_end)
          select o.i, o.segment, o.seq, o.lease, o.delayed
            from (select c.i, c.segment, c.seq, c.lease, c.delayed, c.created_at,
                         count(*) filter (where not c.delayed) over (order by c.created_at, c.i, c.seq) as deliverable
                    from candidate c
                   where c.created_at <= coalesce((select h.upto from horizon h), 'infinity')) o
           where o.deliverable - case when o.delayed then 0 else 1 end < p_limit
           order by o.created_at, o.i, o.seq) t;

  -- Part 3: write. After it the readers have moved over what was read, and the delayed messages are parked.
  if v_read.count > 0 then
    insert into laneway.progress (reader_id, segment, seq, exceptions_until, moved_at)
    select v_readers[t.i], max(t.segment), max(t.seq), v_position.exceptions_until[t.i], p_now
      from unnest(v_read.i, v_read.segments, v_read.seqs) t (i, segment, seq)
     group by t.i;
    delete from laneway.progress
     where ctid = any (array(select distinct v_position.places[t.i] from unnest(v_read.i) t (i)));
    parked := v_read.delayed_count > 0;
    if parked then
      insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at,
                                  attempt)
      select v_readers[t.i], t.seq, t.segment, p_group_id, v_lanes[t.i], l.partition, l.priority, m.deliver_at, 0
        from unnest(v_read.i, v_read.segments, v_read.seqs, v_read.delayed) t (i, segment, seq, delayed)
        cross join lateral (
          select l.partition, l.priority
            from laneway.lane l
           where l.lane_id = v_lanes[t.i]) l
        cross join lateral (
          select m.deliver_at
            from laneway.message m
           where m.segment = t.segment
             and m.lane_id = v_lanes[t.i]
             and m.seq = t.seq) m
       where t.delayed;
    end if;
    picked := array(
      select (v_readers[t.i], v_lanes[t.i], t.segment, t.seq, 1, false, t.lease, null)::laneway.picked_message
        from unnest(v_read.i, v_read.segments, v_read.seqs, v_read.leases, v_read.delayed)
             t (i, segment, seq, lease, delayed)
       where not t.delayed);
  end if;

  -- Part 4: find out whether there may be more. Something may follow what was parked, skipped or not read.
  v_delayed := v_read.delayed_count;
  more := cardinality(picked) < p_limit
    and v_read.count > 0
    and (v_delayed > 0 or v_position.has_exceptions or v_read.count >= v_read_limit);
  if p_mark_idle and cardinality(picked) < p_limit then
    for i in 1..cardinality(v_readers) loop
      if i = any (v_read.i) is not true then
        perform laneway.mark_reader_idle(v_readers[i], v_lanes[i]);
      end if;
    end loop;
  end if;
end $$;
