-- Return the highest priority below p_below (only p_priority, if given) at which a group has ready readers, and those
-- readers.
-- Up to 32: all of them. More (many is true): p_limit of them, from a random one on, so that every lane gets its turn.
-- p_partition: only readers of this partition's lanes; null: all. p_avoid: lanes to leave out, without p_partition.
-- Locks: none. Errors: none.
create or replace function laneway.ready_readers(
  p_group_id int,
  p_queue_id int,
  p_partition text,
  p_priority smallint,
  p_below int,
  p_limit int,
  p_avoid int[] default null,
  out level smallint,
  out readers int[],
  out lanes int[],
  out many boolean)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_start int;
  v_last int;
begin
  many := false;

  -- Of one partition: its lanes are few.
  if p_partition is not null then
    select r.priority
      into level
      from laneway.lane l
      cross join lateral (
        select o.priority, o.ready
          from laneway.reader o
         where o.group_id = p_group_id
           and o.lane_id = l.lane_id) r
     where l.queue_id = p_queue_id
       and l.partition = p_partition
       and r.ready
       and r.priority < p_below
       and (p_priority is null or r.priority = p_priority)
     order by r.priority desc
     limit 1;
    select array_agg(r.reader_id order by r.reader_id), array_agg(r.lane_id order by r.reader_id)
      into readers, lanes
      from laneway.lane l
      cross join lateral (
        select o.reader_id, o.lane_id, o.ready
          from laneway.reader o
         where o.group_id = p_group_id
           and o.lane_id = l.lane_id) r
     where l.queue_id = p_queue_id
       and l.partition = p_partition
       and l.priority = level
       and r.ready;
    return;
  end if;

  -- Find the priority, then up to 33 readers: one more than claim_spans merges.
  if p_priority is null then
    select r.priority
      into level
      from laneway.reader r
     where r.group_id = p_group_id
       and r.ready
       and r.priority < p_below
       and (p_avoid is null or r.lane_id <> all (p_avoid))
     order by r.priority desc
     limit 1;
  elsif p_priority < p_below then
    level := p_priority;
  end if;
  if level is null then
    return;
  end if;
  select array_agg(r.reader_id), array_agg(r.lane_id)
    into readers, lanes
    from (select o.reader_id, o.lane_id
            from laneway.reader o
           where o.group_id = p_group_id
             and o.ready
             and o.priority = level
             and (p_avoid is null or o.lane_id <> all (p_avoid))
           order by o.reader_id
           limit 33) r;

  -- More than 32: p_limit of them from a random one on, and from the first one on if that was near the end.
  if cardinality(readers) > 32 then
    many := true;
    v_last := (
      select r.reader_id
        from laneway.reader r
       where r.group_id = p_group_id
         and r.ready
         and r.priority = level
       order by r.reader_id desc
       limit 1);
    v_start := readers[1] + floor(random() * (v_last - readers[1] + 1))::int;
    select array_agg(r.reader_id), array_agg(r.lane_id)
      into readers, lanes
      from ((select o.reader_id, o.lane_id
               from laneway.reader o
              where o.group_id = p_group_id
                and o.ready
                and o.priority = level
                and (p_avoid is null or o.lane_id <> all (p_avoid))
                and o.reader_id >= v_start
              order by o.reader_id
              limit p_limit)
            union all
            (select o.reader_id, o.lane_id
               from laneway.reader o
              where o.group_id = p_group_id
                and o.ready
                and o.priority = level
                and (p_avoid is null or o.lane_id <> all (p_avoid))
                and o.reader_id < v_start
              order by o.reader_id
              limit p_limit)
            limit p_limit) r;
  end if;
end $$;
