-- Claim the next messages of one lane of a shared group: the fast algorithm where only one lane has ready messages of
-- the highest priority. Where it does not apply, leave the claim to claim_shared.
-- p_reader_id, p_lane_id, p_priority: the lane. p_wanted: messages wanted in total. p_one_claim: the waiters share one
-- claim.
-- p_one_each: they do, and each wants one message. p_lease, p_record_events: of the group.
-- p_only_lane: the group has no other ready lane and nothing parked.
-- Other arguments, result, locks and errors: see claim_spans.
create or replace function laneway.claim_one_lane(
  p_group_id int,
  p_queue_id int,
  p_reader_id int,
  p_lane_id int,
  p_priority smallint,
  p_wants int[],
  p_leases interval[],
  p_consumers text[],
  p_wanted int,
  p_one_claim boolean,
  p_one_each boolean,
  p_lease interval,
  p_record_events boolean,
  p_only_lane boolean)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_now timestamptz := clock_timestamp();
  v_position record;                     -- how far the reader has claimed
  v_read record;                         -- the messages after it, as arrays
  v_applies boolean;
  v_token uuid;
  v_seed text;                           -- of the waiters' tokens
  v_claims record;                       -- arrays: the claim of each waiter
  v_firsts bigint[];                     -- arrays: what each waiter gets of a shared claim
  v_lasts bigint[];
begin
  -- Part 1: read. After it v_position is locked, v_read has what follows it in its segment, and v_applies says whether
  -- that is what the group has to deliver next.
  v_applies := laneway.try_lock_reader(p_reader_id);
  if v_applies then
    select p.place, p.segment, p.seq, p.exceptions_until, l.partition
      into v_position
      from laneway.lane l
      cross join lateral laneway.newest_progress(p_reader_id) p
     where l.lane_id = p_lane_id;
    -- A statement of its own: it opens one segment only, because the segment is a parameter.
    select count(*)::int as count, max(m.seq) as last_seq,
           count(m.lease) > 0 or max(m.deliver_at) > v_now as special,
           count(m.max_attempts) + count(m.key) + count(m.headers) = 0 as plain,
           array_agg(m.created_at) as created_at, array_agg(m.body) as bodies
      into v_read
      from (select m.seq, m.deliver_at, m.lease, m.max_attempts, m.key, m.headers, m.created_at, m.body
              from laneway.message m
             where m.segment = v_position.segment
               and m.lane_id = p_lane_id
               and m.seq > v_position.seq
               and m.seq <= v_position.seq + p_wanted
             order by m.seq) m;
    v_applies := v_position.exceptions_until <= v_position.seq
      and v_read.special is not true
      and (v_read.count = 0 or v_read.last_seq = v_position.seq + v_read.count);
    if v_applies and v_read.count < p_wanted then
      -- Fewer than wanted: only if neither another lane nor a later segment has more.
      v_applies := p_only_lane;
      if v_applies then
        v_applies := not exists (select from laneway.segment s
                                  where s.segment > v_position.segment
                                    and s.segment % 2 = v_position.segment % 2
                                    and s.opened_at is not null);
      end if;
      if v_applies and v_read.count = 0 then
        v_applies := not exists (select from laneway.message m
                                  where m.segment = v_position.segment
                                    and m.lane_id = p_lane_id
                                    and m.seq > v_position.seq);
        if v_applies then
          return;
        end if;
      end if;
    end if;
  end if;
  if v_applies is not true then
    return query select * from laneway.claim_shared(p_group_id, p_wants, p_leases, p_consumers, null, null);
    return;
  end if;

  -- Part 2: one claim for all waiters. After it the reader has moved, and the claim and its event are written.
  if p_one_claim then
    v_token := gen_random_uuid();
    if p_one_each then
      v_firsts := array(select generate_series(v_position.seq + 1, v_read.last_seq));
      v_lasts := v_firsts;
    elsif cardinality(p_wants) > 1 then
      select array_agg(v_position.seq + w.upto - w.want + 1), array_agg(least(v_position.seq + w.upto, v_read.last_seq))
        into v_firsts, v_lasts
        from (select u.want, sum(u.want) over (order by u.i) as upto
                from unnest(p_wants) with ordinality u (want, i)) w
       where w.want > 0
         and w.upto - w.want < v_read.count;
    end if;
    with new_progress as (
      insert into laneway.progress (reader_id, segment, seq, moved_at)
      values (p_reader_id, v_position.segment, v_read.last_seq, v_now)),
    old_progress as (
      delete from laneway.progress
       where ctid = v_position.place),
    new_event as (
      insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
                                 attempt, token, consumer, part_first, part_last)
      select laneway.event_segment(v_position.segment), v_now, 'claimed', p_queue_id, p_group_id, p_lane_id,
             v_position.segment, v_position.seq + 1, v_read.last_seq, 1, v_token, p_consumers[1], v_firsts, v_lasts
       where p_record_events)
    insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt,
                               aside, claimed_at, until, consumer, queue_id)
    values (v_token, p_reader_id, p_group_id, p_lane_id, v_position.segment, v_position.seq + 1, v_read.last_seq,
            int8multirange(int8range(v_position.seq, v_read.last_seq, '(]')), 1, false,
            v_now, v_now + coalesce(p_leases[1], p_lease), p_consumers[1],
            case when p_record_events then p_queue_id end);
    if v_read.plain then
      return query
        select 0, v_token, v_position.segment, p_lane_id, v_position.seq + 1, v_position.partition, p_priority,
               1::smallint, v_now + coalesce(p_leases[1], p_lease), null::int[], null::smallint[],
               v_read.created_at, null::interval[], null::smallint[], null::text[], null::json[], v_read.bodies,
               null::text[];
    else
      return query
        select 0, v_token, v_position.segment, p_lane_id, v_position.seq + 1, v_position.partition, p_priority,
               1::smallint, v_now + coalesce(p_leases[1], p_lease), null::int[], null::smallint[],
               array_agg(m.created_at), null::interval[], array_agg(m.max_attempts), array_agg(m.key),
               array_agg(m.headers), array_agg(m.body), null::text[]
          from (select m.created_at, m.max_attempts, m.key, m.headers, m.body
                  from laneway.message m
                 where m.segment = v_position.segment
                   and m.lane_id = p_lane_id
                   and m.seq > v_position.seq
                   and m.seq <= v_read.last_seq
                 order by m.seq) m;
    end if;
    return;
  end if;

  -- Part 3: a claim for each waiter. After it the reader has moved, and the claims and their event are written.
  -- The tokens are hashes of one random number: drawing one for each is dear, and no token may give away another.
  v_seed := gen_random_uuid()::text;
  select array_agg(w.i) as waiters,
         array_agg(left(encode(sha256((v_seed || w.i)::bytea), 'hex'), 32)::uuid) as tokens,
         array_agg(v_position.seq + w.upto - w.want + 1) as firsts,
         array_agg(least(v_position.seq + w.upto, v_read.last_seq)) as lasts,
         array_agg(v_now + coalesce(p_leases[w.i], p_lease)) as untils,
         array_agg(p_consumers[w.i]) as consumers
    into v_claims
    from (select u.i::int, u.want, sum(u.want) over (order by u.i) as upto
            from unnest(p_wants) with ordinality u (want, i)) w
   where w.want > 0
     and w.upto - w.want < v_read.count;
  with new_progress as (
    insert into laneway.progress (reader_id, segment, seq, moved_at)
    values (p_reader_id, v_position.segment, v_read.last_seq, v_now)),
  old_progress as (
    delete from laneway.progress
     where ctid = v_position.place),
  new_event as (
    insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
                               attempt, part_first, part_last, part_token, part_consumer)
    select laneway.event_segment(v_position.segment), v_now, 'claimed', p_queue_id, p_group_id, p_lane_id,
           v_position.segment, v_position.seq + 1, v_read.last_seq, 1,
           v_claims.firsts, v_claims.lasts, v_claims.tokens, v_claims.consumers
     where p_record_events)
  insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside,
                             claimed_at, until, consumer, queue_id)
  select c.token, p_reader_id, p_group_id, p_lane_id, v_position.segment, c.first_seq, c.last_seq,
         int8multirange(int8range(c.first_seq, c.last_seq, '[]')), 1, false,
         v_now, c.until, c.consumer, case when p_record_events then p_queue_id end
    from unnest(v_claims.tokens, v_claims.firsts, v_claims.lasts, v_claims.untils, v_claims.consumers)
         c (token, first_seq, last_seq, until, consumer);
  if v_read.plain and v_read.count = cardinality(v_claims.tokens) then
    -- One message each: no arrays to cut.
    return query
      select c.waiter - 1, c.token, v_position.segment, p_lane_id, c.first_seq, v_position.partition, p_priority,
             1::smallint, c.until, null::int[], null::smallint[],
             array[c.created_at], null::interval[], null::smallint[], null::text[], null::json[], array[c.body],
             null::text[]
        from unnest(v_claims.waiters, v_claims.tokens, v_claims.firsts, v_claims.untils,
                    v_read.created_at, v_read.bodies)
             c (waiter, token, first_seq, until, created_at, body);
  elsif v_read.plain then
    return query
      select c.waiter - 1, c.token, v_position.segment, p_lane_id, c.first_seq, v_position.partition, p_priority,
             1::smallint, c.until, null::int[], null::smallint[],
             v_read.created_at[c.first_seq - v_position.seq : c.last_seq - v_position.seq], null::interval[],
             null::smallint[], null::text[], null::json[],
             v_read.bodies[c.first_seq - v_position.seq : c.last_seq - v_position.seq], null::text[]
        from unnest(v_claims.waiters, v_claims.tokens, v_claims.firsts, v_claims.lasts, v_claims.untils)
             c (waiter, token, first_seq, last_seq, until);
  else
    return query
      select c.waiter - 1, c.token, v_position.segment, p_lane_id, c.first_seq, v_position.partition, p_priority,
             1::smallint, c.until, null::int[], null::smallint[],
             m.created_at, null::interval[], m.max_attempts, m.keys, m.headers, m.bodies, null::text[]
        from unnest(v_claims.waiters, v_claims.tokens, v_claims.firsts, v_claims.lasts, v_claims.untils)
             c (waiter, token, first_seq, last_seq, until)
        cross join lateral (
          select array_agg(m.created_at) as created_at, array_agg(m.max_attempts) as max_attempts,
                 array_agg(m.key) as keys, array_agg(m.headers) as headers, array_agg(m.body) as bodies
            from (select m.created_at, m.max_attempts, m.key, m.headers, m.body
                    from laneway.message m
                   where m.segment = v_position.segment
                     and m.lane_id = p_lane_id
                     and m.seq between c.first_seq and c.last_seq
                   order by m.seq) m) m;
  end if;
end $$;
