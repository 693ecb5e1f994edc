-- Settle messages by the names that stream clients know: their lane, their key (or id, see resolve_dedup_keys), their
-- group and, if given, their lease. The arrays are parallel. A refused item changes nothing.
-- p_actions: 'ack', 'retry' (a nack, counts an attempt), 'release' (returns it without counting the attempt) or 'dead'.
-- In ordered groups acks commit offsets, per lane and call: 'ack' and 'dead' also ack all messages of the claim before
-- theirs that are not named, up to the first 'retry' or 'release'. That one ends the claim: it and everything behind
-- it in the lane are delivered again, whatever the call says of these; so are the messages before it that no item
-- settled. See commit_offset.
-- In shared groups, and if the queue has individual_acks, each item settles its message only. There, 'release' is as
-- 'retry', and in an ordered group a nacked message returns those behind it in its claim too, without an attempt.
-- Return for each item whether the claim has no messages of the lane left (released), and an outcome. implied is how
-- many messages of the lane were acked that no item names, at one of the lane's items. The outcomes:
--   'completed', 'requeued', 'dead': settled;
--   'noop', 'committed': the group is past it already, and the action was an ack, or another one;
--   'unresolved': there is no such message; 'unleased': no lease was named, and the message has none;
--   'lease': the named lease is not the message's, or has ended. Then all items of that lease are refused.
-- Locks: the readers' advisory locks, in order of lane, then the claims' rows.
-- Errors: LW422 an unknown action, or arrays of different lengths.
create or replace function laneway.settle_stream(
  p_lanes int[], p_keys text[], p_segments int[], p_seqs bigint[], p_groups text[], p_leases uuid[], p_actions text[],
  p_reasons text[])
returns table (idx int, outcome text, released boolean, implied int)
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  -- by item, from 1
  v_readers int[];
  v_committing boolean[]; -- the item's group commits offsets
  v_outcomes text[]; -- 'leased' until the item is settled
  v_tokens uuid[];
  v_segments int[];
  v_seqs bigint[];
  v_until timestamptz[];
  v_implied int[];
  v_lease uuid;
  v_item record;
  v_lane record;
  v_n int;
  v_state text;
  v_acks int[];
  v_nacks int[];
begin
  if exists (
    select from unnest(p_actions) a (action)
     where a.action is null or a.action not in ('ack', 'retry', 'release', 'dead')) then
    raise exception 'action must be ack, retry, release or dead'
      using errcode = 'LW422';
  end if;
  if p_lanes is null
     or cardinality(p_keys) is distinct from cardinality(p_lanes)
     or cardinality(p_groups) is distinct from cardinality(p_lanes)
     or cardinality(p_actions) is distinct from cardinality(p_lanes) then
    raise exception 'lanes, keys, groups and actions must be equally many'
      using errcode = 'LW422';
  end if;

  -- Find and lock the readers.
  v_tokens := array_fill(null::uuid, array[cardinality(p_lanes)]);
  v_segments := array_fill(null::int, array[cardinality(p_lanes)]);
  v_seqs := array_fill(null::bigint, array[cardinality(p_lanes)]);
  v_until := array_fill(null::timestamptz, array[cardinality(p_lanes)]);
  v_implied := array_fill(0, array[cardinality(p_lanes)]);
  v_outcomes := array_fill('unresolved'::text, array[cardinality(p_lanes)]);
  select array_agg(r.reader_id order by i.n), array_agg(r.committing order by i.n)
    into v_readers, v_committing
    from unnest(p_lanes, p_groups) with ordinality i (lane_id, group_name, n)
    left join lateral (
      select r.reader_id, g.ordered and not q.individual_acks as committing
        from laneway.lane l
        join laneway.queue q on q.queue_id = l.queue_id
        join laneway.consumer_group g on g.queue_id = l.queue_id and g.name = i.group_name
        join laneway.reader r on r.group_id = g.group_id and r.lane_id = l.lane_id
       where l.lane_id = i.lane_id) r on true;
  perform laneway.lock_reader(d.reader_id)
     from (select distinct u.lane_id, u.reader_id
             from unnest(p_lanes, v_readers) u (lane_id, reader_id)
            where u.reader_id is not null
            order by u.lane_id, u.reader_id
           offset 0) d;

  -- Resolve the items and lock their claims.
  for v_item in
    select f.idx + 1 as n, f.segment, f.seq, f.token, f.until
      from laneway.resolve_dedup_keys(v_readers, p_lanes, p_keys, p_segments, p_seqs, p_leases) f
  loop
    v_segments[v_item.n] := v_item.segment;
    v_seqs[v_item.n] := v_item.seq;
    v_tokens[v_item.n] := v_item.token;
    v_until[v_item.n] := v_item.until;
  end loop;
  perform
     from laneway.claim c
    where c.token = any (v_tokens)
    order by c.lane_id, c.token, c.part
      for update;
  v_now := clock_timestamp();

  -- Refuse the items that are not leased as they say. Another call may have acked some since they were resolved.
  for v_item in
    select u.n, u.token, u.lease,
           case when u.committing then (
                  select c.until from laneway.claim c where c.token = u.token and c.pending @> u.seq)
                else u.until end as until
      from unnest(v_tokens, p_leases, v_seqs, v_until, v_committing)
           with ordinality u (token, lease, seq, until, committing, n)
     where u.seq is not null
     order by u.n
  loop
    if v_item.until is not null then
      v_outcomes[v_item.n] := case
        when v_item.until > v_now
             and (v_item.lease is null or v_item.token = any (laneway.lease_tokens(v_item.lease))) then 'leased'
        else 'lease' end;
      continue;
    end if;
    v_tokens[v_item.n] := null;
    v_state := laneway.message_state(
      v_readers[v_item.n], v_segments[v_item.n], p_lanes[v_item.n], v_seqs[v_item.n]);
    v_outcomes[v_item.n] := case
      when v_state is null then 'unresolved'
      when v_state not in ('queued', 'processing')
        then case when p_actions[v_item.n] = 'ack' then 'noop' else 'committed' end
      when v_item.lease is null then 'unleased'
      else 'lease' end;
  end loop;
  -- One item that its lease does not cover has all items of the lease refused.
  for v_lease in
    select distinct p_leases[u.n]
      from unnest(v_outcomes) with ordinality u (outcome, n)
     where u.outcome = 'lease'
       and p_leases[u.n] is not null
  loop
    for i in 1..cardinality(p_lanes) loop
      if v_outcomes[i] = 'leased' and p_leases[i] = v_lease then
        v_outcomes[i] := 'lease';
      end if;
    end loop;
  end loop;

  -- Commit offsets, lane by lane. Afterwards 'leased' are items of other groups.
  for v_lane in
    select i.token, i.lane_id,
           min(i.failed) as failed,
           max(i.seq) filter (where i.action in ('ack', 'dead') and (i.seq < i.failed) is not false) as upto,
           count(distinct i.seq) filter (where i.action = 'ack' and (i.seq < i.failed) is not false) as named,
           array_agg(i.n) as items
      from (select u.token, u.lane_id, u.seq, u.action, u.n,
                   min(u.seq) filter (where u.action in ('retry', 'release')) over (partition by u.token) as failed
              from unnest(v_tokens, p_lanes, v_seqs, p_actions, v_outcomes, v_committing)
                   with ordinality u (token, lane_id, seq, action, outcome, committing, n)
             where u.outcome = 'leased'
               and u.committing) i
     group by i.token, i.lane_id
     order by i.lane_id
  loop
    select c.acked, c.outcome
      into v_item
      from (select array_agg(u.seq) as seqs, array_agg(u.reason) as reasons
              from (select distinct on (v_seqs[i.n]) v_seqs[i.n] as seq, p_reasons[i.n] as reason
                      from unnest(v_lane.items) i (n)
                     where p_actions[i.n] = 'dead'
                       and (v_seqs[i.n] < v_lane.failed) is not false) u) d
     cross join (select bool_or(p_actions[i.n] = 'retry') as counted,
                        min(p_reasons[i.n]) filter (where p_actions[i.n] = 'retry') as reason
                   from unnest(v_lane.items) i (n)
                  where v_seqs[i.n] = v_lane.failed) f
     cross join laneway.commit_offset(
                  v_lane.token, v_lane.lane_id, v_lane.upto, d.seqs, d.reasons, v_lane.failed, f.counted, f.reason) c;
    foreach v_n in array v_lane.items loop
      v_outcomes[v_n] := case
        when v_seqs[v_n] = v_lane.failed then v_item.outcome
        when v_seqs[v_n] > v_lane.failed then 'requeued'
        when p_actions[v_n] = 'dead' then 'dead'
        else 'completed' end;
    end loop;
    v_implied[v_n] := greatest(v_item.acked - v_lane.named, 0);
  end loop;

  -- Ack.
  v_acks := array(
    select u.n::int
      from unnest(v_outcomes) with ordinality u (outcome, n)
     where u.outcome = 'leased'
       and p_actions[u.n] = 'ack');
  v_nacks := array(
    select u.n::int
      from unnest(v_outcomes) with ordinality u (outcome, n)
     where u.outcome = 'leased'
       and p_actions[u.n] <> 'ack');
  if v_acks <> '{}' then
    for i in 1..cardinality(v_acks) loop
      v_outcomes[v_acks[i]] := 'completed';
    end loop;
    -- What ack_parts reports as lost was settled by another call a moment ago.
    for v_item in
      select a.idx
        from laneway.ack_parts(array(select v_tokens[u.n] from unnest(v_acks) u (n)),
                               array(select p_lanes[u.n] from unnest(v_acks) u (n)),
                               array(select v_seqs[u.n] from unnest(v_acks) u (n)),
                               array(select v_seqs[u.n] from unnest(v_acks) u (n))) a
    loop
      v_outcomes[v_acks[v_item.idx + 1]] := 'noop';
    end loop;
  end if;

  -- Nack.
  if v_nacks <> '{}' then
    for v_item in
      select a.idx, a.outcome
        from laneway.nack_many(array(select v_tokens[u.n] from unnest(v_nacks) u (n)),
                               array(select p_lanes[u.n] from unnest(v_nacks) u (n)),
                               array(select v_seqs[u.n] from unnest(v_nacks) u (n)),
                               array(select p_reasons[u.n] from unnest(v_nacks) u (n)),
                               null,
                               array(select nullif(p_actions[u.n] = 'dead', false) from unnest(v_nacks) u (n))) a
    loop
      v_outcomes[v_nacks[v_item.idx + 1]] := case v_item.outcome when 'lost' then 'lease' else v_item.outcome end;
    end loop;
    -- In an ordered group nack_many releases the messages after a requeued one. Do so after one that died, too.
    for v_item in
      select c.token, c.lane_id, array_agg(s.seq order by s.seq) as seqs
        from (select v_tokens[u.n] as token, p_lanes[u.n] as lane_id, min(v_seqs[u.n]) as first
                from unnest(v_nacks) u (n)
               where v_outcomes[u.n] = 'dead'
                 and p_actions[u.n] in ('retry', 'release')
               group by 1, 2) d
        cross join lateral (
          select o.token, o.lane_id, o.pending
            from laneway.claim o
            join laneway.consumer_group g on g.group_id = o.group_id and g.ordered
           where o.token = d.token
             and o.lane_id = d.lane_id
          offset 0) c
        cross join lateral unnest(c.pending) r (range)
        cross join lateral generate_series(lower(r.range), upper(r.range) - 1) s (seq)
       where s.seq > d.first
       group by c.token, c.lane_id
       order by c.lane_id
    loop
      perform laneway.release_many(array_fill(v_item.token, array[cardinality(v_item.seqs)]),
                                   array_fill(v_item.lane_id, array[cardinality(v_item.seqs)]), v_item.seqs);
    end loop;
  end if;

  return query
    select u.n::int - 1, u.outcome,
           u.token is not null
           and not exists (select from laneway.claim c where c.token = u.token and c.lane_id = u.lane_id),
           u.implied
      from unnest(v_outcomes, v_tokens, p_lanes, v_implied) with ordinality u (outcome, token, lane_id, implied, n)
     order by u.n;
end $$;
