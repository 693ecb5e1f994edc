-- Group the messages of one push by lane, and find the lanes that exist. A lane is one queue, partition and priority;
-- only its stripe 0 is looked up. Arguments are those of push_many, checked; p_count is the number of messages.
-- Return two arrays with an element per message: message_lanes, the number of its lane in the arrays below, and
-- message_places, its place among the messages for that lane, from 1. And arrays with an element per lane, sorted by
-- queue, partition and priority: queues, partitions, priorities, message_counts and lane_ids (null: the lane is new).
-- Called by push_mixed, under its settings.
-- Locks: none. Errors: none.
create or replace function laneway.find_push_lanes(
  p_count int,
  p_queues int[],
  p_partitions text[],
  p_priorities smallint[],
  out message_lanes int[],
  out message_places int[],
  out queues int[],
  out partitions text[],
  out priorities smallint[],
  out message_counts int[],
  out lane_ids int[])
language plpgsql as $$
#variable_conflict use_column
declare
  v_only_partitions boolean := cardinality(p_queues) = 1 and coalesce(cardinality(p_priorities), 1) = 1;
  v_count int;             -- lanes
begin
  -- Number the lanes.
  if v_only_partitions and coalesce(cardinality(p_partitions), 1) = 1 then
    v_count := 1;
    message_lanes := array_fill(1, array[p_count]);
    message_places := array(select pg_catalog.generate_series(1, p_count));
  elsif v_only_partitions then
    select max(m.lane), array_agg(m.lane), array_agg(m.place)
      into v_count, message_lanes, message_places
      from (select dense_rank() over (order by i.partition collate "C")::int as lane,
                   row_number() over (partition by i.partition collate "C" order by i.n)::int as place
              from (select u.n, coalesce(u.partition, '') as partition
                      from unnest(p_partitions) with ordinality u (partition, n)) i
             order by i.n) m;
  else
    p_queues := laneway.repeat_to_length(p_queues, p_count);
    p_partitions := laneway.repeat_to_length(p_partitions, p_count);
    p_priorities := laneway.repeat_to_length(p_priorities, p_count);
    select max(m.lane), array_agg(m.lane), array_agg(m.place)
      into v_count, message_lanes, message_places
      from (select dense_rank() over (order by i.queue_id, i.partition collate "C", i.priority)::int as lane,
                   row_number() over (
                     partition by i.queue_id, i.partition collate "C", i.priority order by i.n)::int as place
              from (select u.n, u.queue_id, coalesce(u.partition, '') as partition,
                           coalesce(u.priority, 0::smallint) as priority
                      from unnest(p_queues, p_partitions, p_priorities)
                           with ordinality u (queue_id, partition, priority, n)) i
             order by i.n) m;
  end if;

  -- Where lanes differ in their partition only, read them all in one scan. That is enough if none is new.
  if v_only_partitions then
    select array_agg(l.queue_id), array_agg(l.partition), array_agg(l.priority), array_agg(l.lane_id)
      into queues, partitions, priorities, lane_ids
      from (select o.queue_id, o.partition, o.priority, o.lane_id
              from laneway.lane o
             where o.queue_id = p_queues[1]
               and o.partition = any (coalesce(array_replace(p_partitions, null, ''), array['']))
               and o.priority = coalesce(p_priorities[1], 0::smallint)
               and o.stripe = 0
             order by o.partition collate "C") l;
    if cardinality(lane_ids) = v_count then
      if v_count in (1, p_count) then
        message_counts := array_fill(p_count / v_count, array[v_count]);
      else
        message_counts := array(
          select count(*)::int
            from unnest(message_lanes) m (lane)
           group by m.lane
           order by m.lane);
      end if;
      return;
    end if;
    p_queues := laneway.repeat_to_length(p_queues, p_count);
    p_partitions := laneway.repeat_to_length(p_partitions, p_count);
    p_priorities := laneway.repeat_to_length(p_priorities, p_count);
  end if;

  -- Otherwise look up each lane.
  select array_agg(g.queue_id), array_agg(g.partition), array_agg(g.priority), array_agg(g.messages),
         array_agg(l.lane_id)
    into queues, partitions, priorities, message_counts, lane_ids
    from (select min(m.queue_id) as queue_id,
                 min(coalesce(m.partition, '')) as partition,
                 min(coalesce(m.priority, 0::smallint)) as priority,
                 count(*)::int as messages
            from unnest(p_queues, p_partitions, p_priorities, message_lanes) m (queue_id, partition, priority, lane)
           group by m.lane
           order by m.lane) g
    left join lateral (
      select o.lane_id
        from laneway.lane o
       where o.queue_id = g.queue_id
         and o.partition = g.partition
         and o.priority = g.priority
         and o.stripe = 0
      offset 0) l on true;
end $$;
