-- Claim messages of a shared group by the general algorithm: parked messages that are due, several lanes merged by
-- age, delays, gaps, lease durations of single messages, several segments.
-- Goes from the highest priority down. At each, picks due parked messages first, then unread messages of the ready
-- lanes.
-- p_avoid: partitions whose messages are claimed only if those of all others do not suffice.
-- Arguments and result: see claim_spans. Locks: see claim_spans. Errors: see claim_spans.
create or replace function laneway.claim_shared(
  p_group_id int,
  p_wants int[],
  p_leases interval[],
  p_consumers text[],
  p_partition text,
  p_priority smallint,
  p_avoid text[] default null)
returns setof laneway.claimed_span
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  c_passes constant int := 20;           -- at one priority, where there are more than 32 lanes
  v_group record;
  v_now timestamptz := clock_timestamp();
  v_left int;                            -- messages still wanted
  v_avoid text[] := p_avoid;             -- the partitions that are left out for now …
  v_avoided int[];                       -- … and their lanes
  v_below int := 32768;                  -- the priorities from this one up are done
  v_level int;                           -- the priority that is being claimed
  v_parked_level int;                    -- the highest priority of parked messages, due or not
  v_ready record;                        -- the ready lanes of the highest priority that has any
  v_due laneway.picked_message[];
  v_unread record;
  v_picked laneway.picked_message[] := '{}';
  v_read_far boolean := false;
  v_repeat boolean;                      -- look at the same priority again
  v_passes int := 0;
  v_locked_elsewhere int;                -- a reader that another transaction has locked
  v_owns_lock boolean := false;          -- this transaction has locked a reader
begin
  -- Part 1: pick the messages, priority by priority. After it they are no longer unread or parked, and nobody's.
  p_wants := laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers);
  v_left := (select sum(w.want) from unnest(p_wants) w (want));
  select g.queue_id, g.lease, g.record_events
    into v_group
    from laneway.consumer_group g
   where g.group_id = p_group_id;
  if v_avoid is not null then
    v_avoided := array(
      select l.lane_id
        from laneway.lane l
       where l.queue_id = v_group.queue_id
         and l.partition = any (v_avoid));
  end if;
  while v_left > 0 loop
    v_ready := laneway.ready_readers(
      p_group_id, v_group.queue_id, p_partition, p_priority, v_below,
      case when v_passes = 0 then greatest(1, least(32, v_left)) else 100 end, v_avoided);
    if p_partition is null then
      v_parked_level := (
        select k.priority
          from laneway.parked k
         where k.group_id = p_group_id
           and k.priority < v_below
           and (p_priority is null or k.priority = p_priority)
         order by k.priority desc
         limit 1);
    else
      v_parked_level := (
        select k.priority
          from laneway.parked k
         where k.group_id = p_group_id
           and k.partition = p_partition
           and k.priority < v_below
           and (p_priority is null or k.priority = p_priority)
         order by k.priority desc
         limit 1);
    end if;
    v_level := greatest(v_ready.level, v_parked_level);
    if v_level is null then
      exit when v_avoid is null;
      -- The others have no more: go on with those that were left out.
      v_avoid := null;
      v_avoided := null;
      v_below := 32768;
      v_passes := 0;
      continue;
    end if;

    if v_parked_level = v_level then
      v_due := array(
        select d from laneway.pick_parked(p_group_id, p_partition, v_level::smallint, v_left, v_now, v_avoid) d);
      v_picked := v_picked || v_due;
      v_left := v_left - cardinality(v_due);
    end if;

    if v_ready.many
       and cardinality(v_picked) = 0
       and v_ready.level = v_level
       and v_parked_level is distinct from v_level then
      return query
        select * from laneway.claim_merged_per_waiter(
          p_group_id, v_group.queue_id, v_ready.readers, v_ready.lanes, v_ready.level, p_wants, p_leases, p_consumers,
          v_left, v_group.lease, v_group.record_events, false);
      if found then
        return;
      end if;
    end if;

    v_repeat := false;
    if v_left > 0 and v_ready.level = v_level then
      v_unread := laneway.pick_unread(
        p_group_id, v_ready.readers, v_ready.lanes, v_left, v_now, v_read_far, v_ready.many);
      v_locked_elsewhere := coalesce(v_locked_elsewhere, v_unread.locked_elsewhere);
      v_owns_lock := v_owns_lock or v_unread.locked;
      v_picked := v_picked || v_unread.picked;
      v_left := v_left - cardinality(v_unread.picked);
      v_read_far := coalesce(v_unread.parked, v_read_far);
      v_repeat := v_unread.more;
      if v_ready.many and v_unread.locked and v_left > 0 then
        -- There are more lanes than were looked at.
        v_passes := v_passes + 1;
        v_repeat := v_repeat or v_passes < c_passes;
      end if;
    end if;
    if not v_repeat then
      v_below := v_level;
    end if;
  end loop;

  -- Part 2: where nothing was picked, wait for the lock of a lane that may have messages, and begin again.
  if cardinality(v_picked) = 0 then
    if v_locked_elsewhere is not null then
      perform laneway.await_reader(p_group_id, v_locked_elsewhere, v_owns_lock);
      return query
        select * from laneway.claim_shared(
          p_group_id, p_wants, p_leases, p_consumers, p_partition, p_priority, p_avoid);
    end if;
    return;
  end if;

  -- Part 3: lease the messages. A worker that was stopped meanwhile gets nothing, because the parked messages may be
  -- those that it had leased.
  if exists (select from unnest(v_picked) x where x.aside)
     and laneway.skip_stopped_workers(p_group_id, p_wants, p_consumers) <> p_wants then
    raise exception 'a worker was stopped during its claim'
      using errcode = 'LW503', hint = 'Nothing was claimed; call again.';
  end if;
  return query
    select * from laneway.insert_claims(
      p_group_id, v_group.queue_id, v_picked, p_wants, p_leases, p_consumers, v_group.lease, v_group.record_events,
      v_now);
end $$;
