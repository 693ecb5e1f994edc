-- Lease a span of one lane of a shared group with a claim for each waiter, and return the claims' spans.
-- p_partition, p_priority: of the lane. p_place: of the reader's progress row, which is replaced. p_first, p_last: the
-- span.
-- p_lease, p_record_events: of the group. p_now: when the leases begin. p_plain: no message has a key, headers or
-- max_attempts.
-- p_created_at, p_bodies: of the messages.
-- The caller has locked the reader. Other arguments and result: see claim_spans. Locks: none of its own. Errors: none.
create or replace function laneway.lease_span_per_waiter(
  p_group_id int,
  p_queue_id int,
  p_reader_id int,
  p_lane_id int,
  p_partition text,
  p_priority smallint,
  p_segment int,
  p_place tid,
  p_first bigint,
  p_last bigint,
  p_wants int[],
  p_leases interval[],
  p_consumers text[],
  p_lease interval,
  p_record_events boolean,
  p_now timestamptz,
  p_plain boolean,
  p_created_at timestamptz[],
  p_bodies json[])
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  -- The tokens are hashes of one random number: drawing one for each is dear, and no token may give away another.
  v_seed text := gen_random_uuid()::text;
  v_claims record;                       -- arrays: the claim of each waiter
begin
  select array_agg(w.i) as waiters,
         array_agg(left(encode(sha256((v_seed || w.i)::bytea), 'hex'), 32)::uuid) as tokens,
         array_agg(p_first + w.upto - w.want) as firsts,
         array_agg(least(p_first + w.upto - 1, p_last)) as lasts,
         array_agg(p_now + coalesce(p_leases[w.i], p_lease)) as untils,
         array_agg(p_consumers[w.i]) as consumers
    into v_claims
    from (select u.i::int, u.want, sum(u.want) over (order by u.i) as upto
            from unnest(p_wants) with ordinality u (want, i)) w
   where w.want > 0
     and p_first + w.upto - w.want <= p_last;
  with new_progress as (
    insert into laneway.progress (reader_id, segment, seq, moved_at)
    values (p_reader_id, p_segment, p_last, p_now)),
  old_progress as (
    delete from laneway.progress
     where ctid = p_place),
  new_event as (
    insert into laneway.event (segment, at, action, queue_id, group_id, lane_id, message_segment, first_seq, last_seq,
                               attempt, part_first, part_last, part_token, part_consumer)
    select laneway.event_segment(p_segment), p_now, 'claimed', p_queue_id, p_group_id, p_lane_id,
           p_segment, p_first, p_last, 1,
           v_claims.firsts, v_claims.lasts, v_claims.tokens, v_claims.consumers
     where p_record_events)
  insert into laneway.claim (token, reader_id, group_id, lane_id, segment, first_seq, last_seq, pending, attempt, aside,
                             claimed_at, until, consumer, queue_id)
  select c.token, p_reader_id, p_group_id, p_lane_id, p_segment, c.first_seq, c.last_seq,
         int8multirange(int8range(c.first_seq, c.last_seq, '[]')), 1, false,
         p_now, c.until, c.consumer, case when p_record_events then p_queue_id end
    from unnest(v_claims.tokens, v_claims.firsts, v_claims.lasts, v_claims.untils, v_claims.consumers)
         c (token, first_seq, last_seq, until, consumer);
  if p_plain and cardinality(p_bodies) = cardinality(v_claims.tokens) then
    -- One message each: no arrays to cut.
    return query
      select c.waiter - 1, c.token, p_segment, p_lane_id, c.first_seq, p_partition, p_priority,
             1::smallint, c.until, null::int[], null::smallint[],
             array[c.created_at], null::interval[], null::smallint[], null::text[], null::json[], array[c.body],
             null::text[]
        from unnest(v_claims.waiters, v_claims.tokens, v_claims.firsts, v_claims.untils,
                    p_created_at, p_bodies)
             c (waiter, token, first_seq, until, created_at, body);
  elsif p_plain then
    return query
      select c.waiter - 1, c.token, p_segment, p_lane_id, c.first_seq, p_partition, p_priority,
             1::smallint, c.until, null::int[], null::smallint[],
             p_created_at[c.first_seq - p_first + 1 : c.last_seq - p_first + 1], null::interval[],
             null::smallint[], null::text[], null::json[],
             p_bodies[c.first_seq - p_first + 1 : c.last_seq - p_first + 1], null::text[]
        from unnest(v_claims.waiters, v_claims.tokens, v_claims.firsts, v_claims.lasts, v_claims.untils)
             c (waiter, token, first_seq, last_seq, until);
  else
    return query
      select c.waiter - 1, c.token, p_segment, p_lane_id, c.first_seq, p_partition, p_priority,
             1::smallint, c.until, null::int[], null::smallint[],
             m.created_at, null::interval[], m.max_attempts, m.keys, m.headers, m.bodies, null::text[]
        from unnest(v_claims.waiters, v_claims.tokens, v_claims.firsts, v_claims.lasts, v_claims.untils)
             c (waiter, token, first_seq, last_seq, until)
        cross join lateral (
          select array_agg(m.created_at) as created_at, array_agg(m.max_attempts) as max_attempts,
                 array_agg(m.key) as keys, array_agg(m.headers) as headers, array_agg(m.body) as bodies
            from (select m.created_at, m.max_attempts, m.key, m.headers, m.body
                    from laneway.message m
                   where m.segment = p_segment
                     and m.lane_id = p_lane_id
                     and m.seq between c.first_seq and c.last_seq
                   order by m.seq) m) m;
  end if;
end $$;
