-- The usual case of several lanes of one priority: all in one segment, merged by age, with nothing exceptional
-- among what is read. Does it all, or nothing and answers no row: where something is delayed or has a lease of its
-- own, where a reader has gaps ahead or stands in an older segment, or where there is less than p_wanted and
-- p_all_here does not say that these lanes are all there is.
-- The runs of one waiter are parts of one claim.
-- Arguments as claim_spans found them out; the answer is claim_spans'. Locks: the readers' advisory locks. Errors: none.
create or replace function laneway.claim_merged(
  p_group_id int, p_queue_id int, p_wants int[], p_leases interval[], p_consumers text[], p_lease interval, p_record_events boolean,
  p_readers int[], p_lanes int[], p_priority smallint, p_wanted int, p_all_here boolean)
returns table (waiter int, token uuid, segment int, lane_id int, first_seq bigint, partition text, priority smallint, attempt smallint, until timestamptz,
  positions int[], attempts smallint[], created_at timestamptz[], leases interval[], max_attempts smallint[], keys text[], headers json[], bodies json[], errors text[])
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_base text := gen_random_uuid()::text;
  v_mine record;
  v_at record;
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
  v_chunk := least(p_wanted, p_wanted * 3 / (2 * cardinality(v_mine.readers)) + 3);
  return query
    with line as materialized (
      select u.i::int as i, m.* from unnest(v_mine.lanes, v_at.seqs) with ordinality u (lane_id, from_seq, i)
       cross join lateral (select m.seq, m.created_at, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.body from laneway.message m
                            where m.segment = v_at.segment and m.lane_id = u.lane_id and m.seq > u.from_seq and m.seq <= u.from_seq + v_chunk order by m.seq) m),
    -- What is younger than the end of a lane that was not read to its end is left for the next time.
    seen as materialized (
      select min(e.last) filter (where e.n = v_chunk) as upto from (select l.i, count(*) as n, max(l.created_at) as last from line l group by l.i) e),
    picked as materialized (
      select l.*, row_number() over (order by l.created_at, l.i, l.seq)::int as n from line l, seen s where l.created_at <= coalesce(s.upto, 'infinity')
       order by l.created_at, l.i, l.seq limit p_wanted),
    fit as materialized (
      select (count(*) = p_wanted or (p_all_here and cardinality(v_mine.readers) = cardinality(p_readers) and (select s.upto is null from seen s))) and not bool_or(p.deliver_at > v_now is true or p.lease is not null) as is_so,
             bool_and(p.max_attempts is null and p.key is null and p.headers is null) as plain from picked p),
    seat as materialized (
      select w.i::int as i, sum(w.want) over (order by w.i) - w.want as low, sum(w.want) over (order by w.i) as high from unnest(p_wants) with ordinality w (want, i)),
    run as materialized (
      select left(encode(sha256((v_base || r.seat)::bytea), 'hex'), 32)::uuid as token, (row_number() over (partition by r.seat order by v_mine.lanes[r.i]) - 1)::smallint as part, r.* from (
        select s.i as seat, p.i, min(p.seq) as first_seq, max(p.seq) as last_seq, array_agg(p.n) as positions, array_agg(p.created_at) as created_at,
               array_agg(p.max_attempts) filter (where not f.plain) as max_attempts, array_agg(p.key) filter (where not f.plain) as keys,
               array_agg(p.headers) filter (where not f.plain) as headers, array_agg(p.body) as bodies
          from fit f cross join picked p join seat s on p.n > s.low and p.n <= s.high
         where f.is_so group by s.i, p.i, f.plain) r),
    moved as (
      insert into laneway.progress (reader_id, segment, seq, moved_at) select v_mine.readers[r.i], v_at.segment, max(r.last_seq), v_now from run r group by r.i),
    left_behind as (
      delete from laneway.progress where ctid = any (array(select distinct v_at.places[r.i] from run r))),
    claimed as (
      insert into laneway.claim (token, part, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer, queue_id)
      select r.token, r.part, v_mine.readers[r.i], p_group_id, v_mine.lanes[r.i], v_at.segment, r.first_seq, r.last_seq, int8multirange(int8range(r.first_seq, r.last_seq, '[]')), 1, false,
             v_now, v_now + coalesce(p_leases[r.seat], p_lease), p_consumers[r.seat], case when p_record_events then p_queue_id end from run r),
    recorded as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
                                 token, consumer, part_first, part_last, part_token, part_consumer)
      select v_at.segment - v_at.segment % 2, v_now, 'claimed', p_queue_id, p_group_id, v_mine.lanes[e.i], v_at.segment, e.first_seq, e.last_seq, 1,
             case when e.n = 1 then e.tokens[1] end, case when e.n = 1 then e.consumers[1] end,
             case when e.n > 1 then e.firsts end, case when e.n > 1 then e.lasts end, case when e.n > 1 then e.tokens end, case when e.n > 1 then e.consumers end
        from (select r.i, count(*) as n, min(r.first_seq) as first_seq, max(r.last_seq) as last_seq, array_agg(r.first_seq) as firsts, array_agg(r.last_seq) as lasts,
                     array_agg(r.token) as tokens, array_agg(p_consumers[r.seat]) as consumers from run r group by r.i) e
       where p_record_events)
    select r.seat - 1, r.token, v_at.segment, v_mine.lanes[r.i], r.first_seq, l.partition, p_priority, 1::smallint, v_now + coalesce(p_leases[r.seat], p_lease),
           r.positions, null::smallint[], r.created_at, null::interval[], r.max_attempts, r.keys, r.headers, r.bodies, null::text[]
      from run r cross join lateral (select o.partition from laneway.lane o where o.lane_id = v_mine.lanes[r.i] offset 0) l;
end $$;
