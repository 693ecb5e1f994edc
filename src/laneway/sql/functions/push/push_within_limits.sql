-- Push, and apply the options max_messages and rest_window of the queues.
-- If a queue has room for fewer messages (see remaining_capacity), push the first that fit, and all duplicates.
-- Partitions of a queue with a rest_window rest afterwards.
-- The arguments are those of push_many. p_whole: push all messages; for a transaction, which checks the capacity and
-- starts the rest windows at its end. p_new: names of queues to create, with p_settings; p_queues refers to them as -1,
-- -2, ….
-- Return push_many's rows. Messages that did not fit have none.
-- Locks: the rows of new queues, in the order of p_new; those of remaining_capacity, for queues with max_messages;
-- those of push_many; those of start_rest_windows.
-- Errors: LW412 a queue to create exists; those of push_many.
create or replace function laneway.push_within_limits(
  p_queues int[],
  p_bodies json[],
  p_partitions text[] default null,
  p_keys text[] default null,
  p_headers json[] default null,
  p_guards smallint[] default null,
  p_new text[] default null,
  p_settings json[] default null,
  p_whole boolean default false)
returns table (idx int, messages int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_count int := coalesce(cardinality(p_bodies), 0);
  v_queue record;
  v_room bigint;
  v_beyond bigint[];      -- messages that do not fit, by position
  v_fitting int[];        -- messages that fit, by position; null: all of them
  v_span record;
  v_lanes int[] := '{}';
begin
  -- Create the new queues, and put their ids into p_queues.
  for i in 1..coalesce(cardinality(p_new), 0) loop
    begin
      p_queues := array_replace(p_queues, -i, laneway.create_queue(p_new[i], p_settings[i]));
    exception when sqlstate 'LW409' then
      raise exception 'queue "%" already exists', p_new[i]
        using errcode = 'LW412',
              hint = 'Read its options, then repeat the push.';
    end;
  end loop;

  -- Find the messages that do not fit. Afterwards no other push counts the room of these queues before this one ends.
  for v_queue in
    select q.queue_id, q.max_messages, q.dedup_scope = 'partition' as dedup_by_partition,
           case
             when cardinality(p_queues) = 1 then v_count
             else (select count(*) from unnest(p_queues) u (queue_id) where u.queue_id = q.queue_id)
           end as messages
      from laneway.queue q
     where q.queue_id = any (p_queues)
       and q.guards & 2 > 0
     order by q.queue_id
  loop
    v_room := laneway.remaining_capacity(v_queue.queue_id, v_queue.max_messages);
    continue when p_whole or v_room >= v_queue.messages;
    v_beyond := v_beyond || laneway.find_messages_beyond(
      v_room, v_queue.queue_id, v_queue.dedup_by_partition,
      laneway.repeat_to_length(p_queues, v_count),
      laneway.repeat_to_length(p_partitions, v_count),
      laneway.repeat_to_length(p_keys, v_count));
  end loop;

  -- Leave them out. Afterwards every array has an element per message.
  if cardinality(v_beyond) > 0 then
    select array_agg(m.n::int), array_agg(m.body), array_agg(m.queue_id), array_agg(m.partition), array_agg(m.key),
           array_agg(m.headers), array_agg(m.guards)
      into v_fitting, p_bodies, p_queues, p_partitions, p_keys, p_headers, p_guards
      from (select u.n, u.body, u.queue_id, u.partition, u.key, u.headers, u.guards
              from unnest(
                     p_bodies,
                     laneway.repeat_to_length(p_queues, v_count),
                     laneway.repeat_to_length(p_partitions, v_count),
                     laneway.repeat_to_length(p_keys, v_count),
                     laneway.repeat_to_length(p_headers, v_count),
                     laneway.repeat_to_length(p_guards, v_count))
                   with ordinality u (body, queue_id, partition, key, headers, guards, n)
             where not exists (select from unnest(v_beyond) b (n) where b.n = u.n)
             order by u.n) m;
  end if;

  -- Push, and report positions as the caller counts them. If messages were left out, each row is one message, because
  -- p_keys is given and push_mixed has a row per message.
  for v_span in
    select p.idx, p.messages, p.segment, p.lane_id, p.seq, p.duplicate
      from laneway.push_many(
             p_queues, p_bodies, p_partitions, null, null, p_keys, p_headers, null, null, null, p_guards) p
  loop
    idx := coalesce(v_fitting[v_span.idx + 1] - 1, v_span.idx);
    messages := v_span.messages;
    segment := v_span.segment;
    lane_id := v_span.lane_id;
    seq := v_span.seq;
    duplicate := v_span.duplicate;
    if not duplicate then
      v_lanes := v_lanes || lane_id;
    end if;
    return next;
  end loop;
  if not p_whole then
    perform laneway.start_rest_windows(v_lanes);
  end if;
end $$;
