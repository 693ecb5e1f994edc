-- Hands out messages of a group to many waiting consumers at once: up to p_wants[i] to waiter i, in order of
-- priority, then age. p_leases and p_consumers may be null; an element of p_leases that is null means the
-- message's own lease, else the queue's. p_alone: this call is the whole transaction, which then commits
-- asynchronously (a crash only hands the messages out again).
-- Here is the straight path, a single lane with nothing exceptional ahead; the rest is in claim_shared and
-- claim_ordered.
-- Locks: the readers' advisory locks, through commit. Errors: LW404 unknown group.
create or replace function laneway.claim_many(
  p_group_id int, p_wants int[], p_leases interval[] default null, p_consumers text[] default null,
  p_partition text default null, p_priority smallint default null, p_alone boolean default false)
returns table (waiter int, token uuid, segment int, lane_id int, seq bigint, partition text, priority smallint, attempt smallint,
  created_at timestamptz, until timestamptz, lease interval, max_attempts smallint, key text, headers json, body json)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_group record;
  v_reader record;
  v_place record;
  v_run record;
  v_wanted int := 0;
  v_now timestamptz;
  v_seats record;
  v_want int;
begin
  if p_alone then
    perform pg_catalog.set_config('synchronous_commit', 'off', true);
  end if;
  select g.queue_id, g.ordered, q.lease, q.record_events into v_group
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  if v_group.ordered then
    return query select * from laneway.claim_ordered(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
    return;
  end if;
  foreach v_want in array p_wants loop
    v_wanted := v_wanted + v_want;
  end loop;
  if p_partition is null and p_priority is null then
    -- The best ready reader, whether it is the only one, and whether anything parked may come before it.
    select r.reader_id, r.lane_id, r.priority,
           exists (select from laneway.reader o where o.group_id = p_group_id and o.ready and o.priority = r.priority and o.reader_id > r.reader_id) as rivals,
           exists (select from laneway.reader o where o.group_id = p_group_id and o.ready and o.priority < r.priority) as lower,
           (select k.priority from laneway.parked k where k.group_id = p_group_id order by k.priority desc limit 1) as parked
      into v_reader
      from laneway.reader r where r.group_id = p_group_id and r.ready order by r.priority desc, r.reader_id limit 1;
    v_now := clock_timestamp();
    if v_reader.reader_id is not null and not v_reader.rivals
       and (v_reader.parked is null or v_reader.parked < v_reader.priority or (v_reader.parked = v_reader.priority and not exists (
              select from laneway.parked k where k.group_id = p_group_id and k.priority = v_reader.priority and k.available_at <= v_now)))
       and pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id) then
      select p.ctid, p.segment, p.seq, p.exceptions_until into v_place
        from laneway.progress p where p.reader_id = v_reader.reader_id order by p.step desc limit 1;
      select count(*)::int as n, max(m.seq) as last, coalesce(bool_or(m.deliver_at > v_now or m.lease is not null), false) as special into v_run
        from (select m.seq, m.deliver_at, m.lease from laneway.message m
               where m.segment = v_place.segment and m.lane_id = v_reader.lane_id and m.seq > v_place.seq order by m.seq limit v_wanted) m;
      if v_place.exceptions_until <= v_place.seq and not v_run.special
         and (v_run.n = v_wanted or (not v_reader.lower and v_reader.parked is null
              and not exists (select from laneway.segment s where s.segment > v_place.segment and s.segment % 2 = v_place.segment % 2 and s.opened_at is not null)))
         and (v_run.n = 0 or v_run.last = v_place.seq + v_run.n) then
        if v_run.n = 0 then
          return;
        end if;
        select array_agg(w.i) as waiters, array_agg(gen_random_uuid()) as tokens, array_agg(v_place.seq + w.upto - w.want + 1) as firsts,
               array_agg(least(v_place.seq + w.upto, v_run.last)) as lasts, array_agg(v_now + coalesce(p_leases[w.i], v_group.lease)) as untils,
               array_agg(p_consumers[w.i]) as consumers, count(*) as n into v_seats
          from (select u.i::int, u.want, sum(u.want) over (order by u.i) as upto from unnest(p_wants) with ordinality u (want, i)) w
         where w.want > 0 and w.upto - w.want < v_run.n;
        insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside, claimed_at, until, consumer)
        select s.token, v_reader.reader_id, p_group_id, v_reader.lane_id, v_place.segment, s.first_seq, s.last_seq,
               int8multirange(int8range(s.first_seq, s.last_seq, '[]')), 1, false, v_now, s.until, s.consumer
          from unnest(v_seats.tokens, v_seats.firsts, v_seats.lasts, v_seats.untils, v_seats.consumers) s (token, first_seq, last_seq, until, consumer);
        insert into laneway.progress (reader_id, segment, seq, moved_at) values (v_reader.reader_id, v_place.segment, v_run.last, v_now);
        delete from laneway.progress where ctid = v_place.ctid;
        if v_group.record_events then
          insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq, attempt,
                                     token, consumer, part_first, part_last, part_token, part_consumer)
          select s.segment, v_now, 'claimed', v_group.queue_id, p_group_id, v_reader.lane_id, v_place.segment, v_place.seq + 1, v_run.last, 1,
                 case when v_seats.n = 1 then v_seats.tokens[1] end, case when v_seats.n = 1 then p_consumers[v_seats.waiters[1]] end,
                 case when v_seats.n > 1 then v_seats.firsts end, case when v_seats.n > 1 then v_seats.lasts end,
                 case when v_seats.n > 1 then v_seats.tokens end,
                 case when v_seats.n > 1 and p_consumers is not null then v_seats.consumers end
            from laneway.segment s where s.opened_at is not null and s.segment % 2 = 0 order by s.segment desc limit 1;
        end if;
        return query
          select s.waiter - 1, s.token, v_place.segment, v_reader.lane_id, m.seq, l.partition, l.priority, 1::smallint,
                 m.created_at, s.until, null::interval, m.max_attempts, m.key, m.headers, m.body
            from laneway.lane l,
                 unnest(v_seats.tokens, v_seats.firsts, v_seats.lasts, v_seats.untils, v_seats.waiters) s (token, first_seq, last_seq, until, waiter),
                 lateral (select m.seq, m.created_at, m.max_attempts, m.key, m.headers, m.body from laneway.message m
                           where m.segment = v_place.segment and m.lane_id = v_reader.lane_id and m.seq between s.first_seq and s.last_seq order by m.seq) m
           where l.lane_id = v_reader.lane_id;
        return;
      end if;
    end if;
  end if;
  return query select * from laneway.claim_shared(p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority);
end $$;
