-- The usual case of one waiter and several lanes of one priority: the oldest messages over all of them, all in one segment,
-- with nothing exceptional among them. Does it all, or nothing and answers no row: where something is delayed or has a lease of its
-- own, where a reader has gaps ahead or stands in an older segment, or where there is less than p_wanted and
-- p_all_here does not say that these lanes are all there is. The claims have one token and are its parts.
-- p_single: the waiter stands for many who want one message each. Other arguments as claim_runs found them out; the answer is
-- claim_runs'. Locks: the readers' advisory locks. Errors: none.
create or replace function laneway.claim_oldest(
  p_group_id int, p_queue_id int, p_lease interval, p_consumer text, p_record_events boolean,
  p_readers int[], p_lanes int[], p_priority smallint, p_wanted int, p_all_here boolean, p_single boolean)
returns table (waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_token uuid := gen_random_uuid();
  v_mine record;
  v_at record;
  v_run record;                          -- arrays, per lane that something is wanted of
  v_chunk int;
begin
  -- Lock first, read where they stand only then.
  select array_agg(t.reader_id) as readers, array_agg(t.lane_id) as lanes into v_mine
    from (select u.reader_id, u.lane_id, pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, u.reader_id) as mine
            from unnest(p_readers, p_lanes) u (reader_id, lane_id) offset 0) t where t.mine;
  if v_mine.readers is null then
    return;
  end if;
  select array_agg(p.ctid) as places, array_agg(p.seq) as seqs, min(p.segment) as segment, bool_or(p.exceptions_until > p.seq) as exceptions,
         min(p.segment) <> (select s.segment from laneway.segment s where s.opened_at is not null and s.segment % 2 = min(p.segment) % 2 order by s.segment desc limit 1) as older
    into v_at
    from unnest(v_mine.readers) u (reader_id)
    cross join lateral (select p.ctid, p.segment, p.seq, p.exceptions_until from laneway.progress p where p.reader_id = u.reader_id order by p.step desc limit 1) p;
  if v_at.exceptions or v_at.older then
    return;
  end if;
  -- How far each lane goes: read of each somewhat more than its share and, if all of that is wanted of one, further of all.
  v_chunk := least(p_wanted, p_wanted * 5 / (4 * cardinality(v_mine.readers)) + 2);
  loop
    select array_agg(r.i) as i, array_agg(r.last_seq) as lasts, sum(r.n) as n, max(r.n) as most, bool_or(r.special) as special, bool_and(r.plain) as plain into v_run
      from (select o.i, max(o.seq) as last_seq, count(*) as n, bool_or(o.deliver_at > v_now or o.lease is not null) as special,
                   bool_and(o.max_attempts is null and o.key is null and o.headers is null) as plain
              from (select u.i, m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers from unnest(v_mine.lanes, v_at.seqs) with ordinality u (lane_id, from_seq, i)
                     cross join lateral (select m.seq, m.created_at, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers from laneway.message m
                                          where m.segment = v_at.segment and m.lane_id = u.lane_id and m.seq > u.from_seq order by m.seq limit v_chunk) m
                     order by m.created_at, u.i, m.seq limit p_wanted) o group by o.i) r;
    exit when v_run.most < v_chunk or v_chunk = p_wanted or v_run.n is null;
    v_chunk := least(p_wanted, v_chunk * 3);
  end loop;
  if v_run.n is null or v_run.special or (v_run.n < p_wanted and not (p_all_here and cardinality(v_mine.readers) = cardinality(p_readers))) then
    return;
  end if;
  return query
    with run as materialized (
      select (u.i - 1)::smallint as part, v_mine.readers[u.i] as reader_id, v_mine.lanes[u.i] as lane_id, v_at.places[u.i] as place, v_at.seqs[u.i] + 1 as first_seq, u.last_seq, r.*
        from unnest(v_run.i, v_run.lasts) u (i, last_seq)
        cross join lateral (
          select array_agg(m.created_at) as created_at, array_agg(m.max_attempts) filter (where not v_run.plain) as max_attempts, array_agg(m.key) filter (where not v_run.plain) as keys,
                 array_agg(m.headers) filter (where not v_run.plain) as headers, array_agg(m.body) as bodies
            from (select m.created_at, m.max_attempts, m.key, m.headers, m.body from laneway.message m
                   where m.segment = v_at.segment and m.lane_id = v_mine.lanes[u.i] and m.seq > v_at.seqs[u.i] and m.seq <= u.last_seq order by m.seq) m) r),
    moved as (
      insert into laneway.progress (reader_id, segment, seq, moved_at) select r.reader_id, v_at.segment, r.last_seq, v_now from run r),
    left_behind as (
      delete from laneway.progress where ctid = any (array(select r.place from run r))),
    claimed as (
      insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer)
      select v_token, r.part, r.reader_id, p_group_id, r.lane_id, v_at.segment, r.first_seq, r.last_seq, int8multirange(int8range(r.first_seq, r.last_seq, '[]')), 1, false,
             v_now, v_now + p_lease, p_consumer from run r),
    recorded as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt, token, consumer, part_first, part_last)
      select v_at.segment - v_at.segment % 2, v_now, 'claimed', p_queue_id, p_group_id, r.lane_id, v_at.segment, r.first_seq, r.last_seq, 1, v_token, p_consumer, s.seqs, s.seqs
        from run r
        cross join lateral (select case when p_single then array(select generate_series(r.first_seq, r.last_seq)) end as seqs) s where p_record_events)
    select 0, v_token, v_at.segment, r.lane_id, r.first_seq, l.partition, p_priority, 1::smallint, v_now + p_lease,
           null::int[], null::smallint[], r.created_at, null::interval[], r.max_attempts, r.keys, r.headers, r.bodies, null::text[]
      from run r cross join lateral (select o.partition from laneway.lane o where o.lane_id = r.lane_id offset 0) l;
end $$;
