-- claim_spans' general path for shared groups: parked messages that are due, several lanes merged by age,
-- delays, gaps, leases of single messages, several segments. Arguments, answer, locks and errors are claim_spans'.
create or replace function laneway.claim_shared(
  p_group_id int, p_wants int[], p_leases interval[], p_consumers text[], p_partition text, p_priority smallint)
returns table (waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_group record;
  v_now timestamptz := clock_timestamp();
  v_base text;                           -- of the tokens
  v_left int;
  v_below int := 32768;
  v_level int;
  v_parked int;
  v_ready record;
  v_due record;
  v_rows record;
  v_chunk int;
  v_delays boolean := false;             -- many delayed messages may lie together: read further
  v_exceptions boolean;
  v_run record;
  v_other int;
  v_oldest int;                          -- the oldest segment any of the lanes stands in
  v_repeat boolean;
  v_held int;                            -- a reader that somebody else was reading
  v_own boolean := false;                -- whether any reader's lock is ours
  v_passes int := 0;
  -- the lanes at hand
  v_readers int[]; v_lanes int[]; v_from bigint[]; v_upto bigint[]; v_segments int[]; v_ctids tid[]; v_until bigint[];
  -- what is handed out, in order
  v_out_readers int[] := '{}'; v_out_lanes int[] := '{}'; v_out_segments int[] := '{}'; v_out_seqs bigint[] := '{}'; v_out_attempts smallint[] := '{}'; v_out_aside boolean[] := '{}'; v_out_leases interval[] := '{}';
  v_out_errors text[] := '{}';           -- may be shorter than the others: only what was parked has one
begin
  p_wants := laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers);
  v_left := (select sum(w) from unnest(p_wants) w);
  select g.queue_id, g.lease, g.record_events into v_group from laneway.consumer_group g where g.group_id = p_group_id;
  loop
    exit when v_left <= 0;
    select * into v_ready from laneway.ready_readers(p_group_id, v_group.queue_id, p_partition, p_priority, v_below,
      case when v_passes = 0 then greatest(1, least(32, v_left)) else 100 end);
    if p_partition is null then
      v_parked := (select k.priority from laneway.parked k
                    where k.group_id = p_group_id and k.priority < v_below and (p_priority is null or k.priority = p_priority) order by k.priority desc limit 1);
    else
      v_parked := (select k.priority from laneway.parked k
                    where k.group_id = p_group_id and k.partition = p_partition and k.priority < v_below and (p_priority is null or k.priority = p_priority)
                    order by k.priority desc limit 1);
    end if;
    v_level := greatest(v_ready.level, v_parked);
    exit when v_level is null;

    if v_parked = v_level then
      if p_partition is null then
        select array_agg(d.ctid) as ctids, array_agg(d.reader_id) as readers, array_agg(d.lane_id) as lanes, array_agg(d.segment) as segments,
               array_agg(d.seq) as seqs, array_agg(least(d.attempt + 1, 32767)::smallint) as attempts, count(*)::int as n,
               array_agg((select c.lease from laneway.message_content(d.reader_id, d.segment, d.lane_id, d.seq) c)) as leases, array_agg(d.error) as errors into v_due
          from (select k.ctid, k.reader_id, k.lane_id, k.segment, k.seq, k.attempt, k.error from laneway.parked k
                 where k.group_id = p_group_id and k.priority = v_level and k.available_at <= v_now
                 order by k.available_at, k.seq limit v_left for update skip locked) d;
      else
        select array_agg(d.ctid) as ctids, array_agg(d.reader_id) as readers, array_agg(d.lane_id) as lanes, array_agg(d.segment) as segments,
               array_agg(d.seq) as seqs, array_agg(least(d.attempt + 1, 32767)::smallint) as attempts, count(*)::int as n,
               array_agg((select c.lease from laneway.message_content(d.reader_id, d.segment, d.lane_id, d.seq) c)) as leases, array_agg(d.error) as errors into v_due
          from (select k.ctid, k.reader_id, k.lane_id, k.segment, k.seq, k.attempt, k.error from laneway.parked k
                 where k.group_id = p_group_id and k.partition = p_partition and k.priority = v_level and k.available_at <= v_now
                 order by k.available_at, k.seq limit v_left for update skip locked) d;
      end if;
      if v_due.n > 0 then
        delete from laneway.parked where ctid = any (v_due.ctids);
        v_out_errors := v_out_errors || array_fill(null::text, array[cardinality(v_out_seqs) - cardinality(v_out_errors)]) || v_due.errors;
        v_out_readers := v_out_readers || v_due.readers; v_out_lanes := v_out_lanes || v_due.lanes; v_out_segments := v_out_segments || v_due.segments;
        v_out_seqs := v_out_seqs || v_due.seqs; v_out_attempts := v_out_attempts || v_due.attempts; v_out_aside := v_out_aside || array_fill(true, array[v_due.n]);
        v_out_leases := v_out_leases || v_due.leases;
        v_left := v_left - v_due.n;
      end if;
    end if;

    v_repeat := false;
    if v_ready.many and v_out_seqs = '{}' and v_ready.level = v_level and v_parked is distinct from v_level then
      return query
        select * from laneway.claim_merged(p_group_id, v_group.queue_id, p_wants, p_leases, p_consumers, v_group.lease, v_group.record_events,
          v_ready.readers, v_ready.lanes, v_ready.level, v_left, false);
      if found then
        return;
      end if;
    end if;
    if v_left > 0 and v_ready.level = v_level then
      v_readers := '{}'; v_lanes := '{}'; v_from := '{}'; v_upto := '{}'; v_segments := '{}'; v_ctids := '{}'; v_until := '{}'; v_oldest := null;
      -- Lock first, read where they stand only then.
      select array_agg(t.reader_id) filter (where t.mine), array_agg(t.lane_id) filter (where t.mine), min(t.reader_id) filter (where not t.mine) into v_readers, v_lanes, v_other
        from (select u.reader_id, u.lane_id, pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, u.reader_id) as mine
                from unnest(v_ready.readers, v_ready.lanes) u (reader_id, lane_id) offset 0) t;
      v_held := coalesce(v_held, v_other);
      v_own := v_own or v_readers is not null;
      select array_agg(p.ctid), array_agg(p.segment), array_agg(p.seq), array_agg(p.exceptions_until), min(p.segment), bool_or(p.exceptions_until > p.seq)
        into v_ctids, v_segments, v_from, v_until, v_oldest, v_exceptions
        from unnest(v_readers) with ordinality u (reader_id, n)
        cross join lateral (select p.ctid, p.segment, p.seq, p.exceptions_until from laneway.progress p where p.reader_id = u.reader_id order by p.step desc limit 1) p;
      v_upto := array_fill(9223372036854775807, array[coalesce(cardinality(v_readers), 0)]);
      if v_exceptions then
        for i in 1..cardinality(v_readers) loop
          if v_until[i] > v_from[i] then
            v_run := laneway.next_span(v_readers[i], v_from[i]);
            v_from[i] := v_run.from_seq; v_upto[i] := v_run.to_seq;
          end if;
        end loop;
      end if;
      if v_readers is not null then
        v_chunk := case when v_delays then 2000 when cardinality(v_readers) = 1 then v_left else least(v_left, 2 * v_left / cardinality(v_readers) + 4) end;
        -- The oldest v_left messages over all these lanes; of each lane they are the next in line. A lane is read
        -- only so far, or up to a gap; what is younger than the end of what was read of such a lane is left for the next round.
        select array_agg(t.i) as i, array_agg(t.seq) as seqs, array_agg(t.segment) as segments, array_agg(t.delayed) as delayed, array_agg(t.lease) as leases,
               count(*)::int as n, count(*) filter (where t.delayed)::int as n_delayed into v_rows
          from (with r as materialized (
                  select u.i::int, m.segment, m.seq, m.created_at, m.lease, coalesce(m.deliver_at > v_now, false) as delayed, m.n
                    from unnest(v_lanes, v_from, v_upto, v_segments) with ordinality u (lane_id, from_seq, to_seq, segment, i)
                    cross join lateral (select m.segment, m.seq, m.created_at, m.deliver_at, m.lease, row_number() over () as n
                                          from (select m.segment, m.seq, m.created_at, m.deliver_at, m.lease from laneway.message m
                                                 where m.segment >= v_oldest and m.lane_id = u.lane_id and m.segment >= u.segment
                                                   and m.seq > u.from_seq and m.seq <= u.to_seq order by m.seq limit v_chunk) m) m)
                select o.i, o.segment, o.seq, o.lease, o.delayed
                  from (select r.i, r.segment, r.seq, r.lease, r.delayed, r.created_at, count(*) filter (where not r.delayed) over (order by r.created_at, r.i, r.seq) as deliverable
                          from r where r.created_at <= coalesce((select min(e.last) from (select l.i, count(*) as n, max(l.created_at) as last from r l group by l.i) e
                                                                   where e.n = v_chunk or v_upto[e.i] < 9223372036854775807), 'infinity')) o
                 where o.deliverable - case when o.delayed then 0 else 1 end < v_left
                 order by o.created_at, o.i, o.seq) t;
        if v_rows.n > 0 then
          insert into laneway.progress (reader_id, segment, seq, exceptions_until, moved_at)
          select v_readers[t.i], max(t.segment), max(t.seq), v_until[t.i], v_now from unnest(v_rows.i, v_rows.segments, v_rows.seqs) t (i, segment, seq) group by t.i;
          delete from laneway.progress where ctid = any (array(select distinct v_ctids[t.i] from unnest(v_rows.i) t (i)));
          if v_rows.n_delayed > 0 then
            insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at, attempt)
            select v_readers[t.i], t.seq, t.segment, p_group_id, v_lanes[t.i], l.partition, l.priority, m.deliver_at, 0
              from unnest(v_rows.i, v_rows.segments, v_rows.seqs, v_rows.delayed) t (i, segment, seq, delayed)
              cross join lateral (select l.partition, l.priority from laneway.lane l where l.lane_id = v_lanes[t.i]) l
              cross join lateral (select m.deliver_at from laneway.message m where m.segment = t.segment and m.lane_id = v_lanes[t.i] and m.seq = t.seq) m
             where t.delayed;
          end if;
          select v_out_readers || array_agg(v_readers[t.i]), v_out_lanes || array_agg(v_lanes[t.i]), v_out_segments || array_agg(t.segment), v_out_seqs || array_agg(t.seq),
                 v_out_attempts || array_agg(1::smallint), v_out_aside || array_agg(false), v_out_leases || array_agg(t.lease)
            into v_out_readers, v_out_lanes, v_out_segments, v_out_seqs, v_out_attempts, v_out_aside, v_out_leases
            from unnest(v_rows.i, v_rows.segments, v_rows.seqs, v_rows.leases, v_rows.delayed) t (i, segment, seq, lease, delayed) where not t.delayed;
          v_left := v_left - (v_rows.n - v_rows.n_delayed);
          v_delays := v_rows.n_delayed > 0;
        end if;
        -- Something may follow what was parked, stepped over or not read, or be in lanes that were not looked at.
        v_repeat := v_left > 0 and v_rows.n > 0 and (v_rows.n_delayed > 0 or v_exceptions or v_rows.n >= v_chunk);
        if v_ready.many and v_left > 0 then
          for i in 1..cardinality(v_readers) loop
            if v_rows.n = 0 or v_rows.i is null or i <> all (v_rows.i) then
              perform laneway.mark_reader_idle(v_readers[i], v_lanes[i]);
            end if;
          end loop;
          v_passes := v_passes + 1;
          v_repeat := v_repeat or v_passes < 20;
        end if;
      end if;
    end if;
    if not v_repeat then
      v_below := v_level;
    end if;
  end loop;

  if v_out_seqs = '{}' then
    if v_held is not null then
      perform laneway.await_reader(p_group_id, v_held, v_own);
      return query select * from laneway.claim_shared(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
    end if;
    return;
  end if;

  -- One that was stopped since gets nothing either: what it had in hand may have come back only then.
  if true = any (v_out_aside) and laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers) <> p_wants then
    raise exception 'a worker was stopped during its claim' using errcode = 'LW503', hint = 'Nothing was claimed; call again.';
  end if;

  -- The runs of one waiter are parts of one claim, numbered in the order in which claims are locked: one token settles and
  -- extends all of them. positions tells where each message of a run comes in the answer.
  v_base := gen_random_uuid()::text;
  return query
    with seat as (
      select w.i, sum(w.want) over (order by w.i) - w.want as low, sum(w.want) over (order by w.i) as high
        from unnest(p_wants) with ordinality w (want, i)),
    dealt as (
      select x.reader_id, x.lane_id, x.segment, x.seq, x.attempt, x.aside, x.error, x.n, s.i::int as seat, coalesce(p_leases[s.i], x.lease, v_group.lease) as held
        from unnest(v_out_readers, v_out_lanes, v_out_segments, v_out_seqs, v_out_attempts, v_out_aside, v_out_leases, v_out_errors)
             with ordinality x (reader_id, lane_id, segment, seq, attempt, aside, lease, error, n)
        join seat s on x.n > s.low and x.n <= s.high),
    lock as materialized (
      select left(encode(sha256((v_base || d.seat)::bytea), 'hex'), 32)::uuid as token, (row_number() over (partition by d.seat order by d.lane_id, min(d.seq)) - 1)::smallint as part,
             d.seat, d.reader_id, d.lane_id, d.segment, d.attempt, d.aside, d.held, min(d.error) as error,
             min(d.seq) as first_seq, max(d.seq) as last_seq, array_agg(d.n::int order by d.seq) as positions
        from (select e.*, e.seq - row_number() over (partition by e.seat, e.reader_id, e.segment, e.attempt, e.aside, e.held order by e.seq)
                       + case when e.aside then e.n * 1000000 else 0 end as island from dealt e) d
       group by d.seat, d.reader_id, d.lane_id, d.segment, d.attempt, d.aside, d.held, d.island),
    claimed as (
      insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer, error, queue_id)
      select k.token, k.part, k.reader_id, p_group_id, k.lane_id, k.segment, k.first_seq, k.last_seq, int8multirange(int8range(k.first_seq, k.last_seq, '[]')),
             k.attempt, k.aside, v_now, v_now + k.held, p_consumers[k.seat], k.error, case when v_group.record_events then v_group.queue_id end
        from lock k),
    recorded as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
                                 token, consumer, part_first, part_last, part_token, part_consumer)
      select (select g.segment from laneway.segment g where g.opened_at is not null and g.segment % 2 = 0 order by g.segment desc limit 1),
             v_now, 'claimed', v_group.queue_id, p_group_id, k.lane_id, k.segment, min(k.first_seq), max(k.last_seq), k.attempt,
             case when count(*) = 1 then (array_agg(k.token))[1] end, case when count(*) = 1 then min(p_consumers[k.seat]) end,
             case when count(*) > 1 then array_agg(k.first_seq) end, case when count(*) > 1 then array_agg(k.last_seq) end,
             case when count(*) > 1 then array_agg(k.token) end, case when count(*) > 1 then array_agg(p_consumers[k.seat]) end
        from lock k where v_group.record_events group by k.lane_id, k.segment, k.attempt)
    select k.seat - 1, k.token, k.segment, k.lane_id, k.first_seq, m.partition, m.priority, k.attempt, v_now + k.held, k.positions, null::smallint[],
           m.created_at, m.leases, m.max_attempts, m.keys, m.headers, m.bodies, case when k.error is not null then array[k.error] end
      from lock k
      cross join lateral (
        select l.partition, l.priority, m.* from laneway.lane l cross join lateral (
          select array_agg(m.created_at) as created_at, case when count(m.lease) > 0 then array_agg(m.lease) end as leases,
                 case when count(m.max_attempts) > 0 then array_agg(m.max_attempts) end as max_attempts, case when count(m.key) > 0 then array_agg(m.key) end as keys,
                 case when count(m.headers) > 0 then array_agg(m.headers) end as headers, array_agg(m.body) as bodies
            from (select m.created_at, m.lease, m.max_attempts, m.key, m.headers, m.body from laneway.message m
                   where m.segment = k.segment and m.lane_id = k.lane_id and m.seq between k.first_seq and k.last_seq order by m.seq) m) m
         where not k.aside and l.lane_id = k.lane_id
        union all
        select min(c.partition), min(c.priority), array_agg(c.created_at order by s.seq), array_agg(c.lease order by s.seq), array_agg(c.max_attempts order by s.seq),
               array_agg(c.key order by s.seq), array_agg(c.headers order by s.seq), array_agg(c.body order by s.seq)
          from generate_series(k.first_seq, k.last_seq) s (seq) cross join lateral laneway.message_content(k.reader_id, k.segment, k.lane_id, s.seq) c
         where k.aside having count(*) > 0) m
     where m.bodies is not null
     order by k.positions[1];
end $$;
