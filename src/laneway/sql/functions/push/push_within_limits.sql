-- Pushes to queues whose guards are heeded: one that has no room for more than its max_messages of messages that a group has not
-- finished takes those that are duplicates, and the first of the rest; a partition of one with a rest_window rests after it.
-- Answers push_many's rows; items that did not fit have none, and were not pushed. p_whole: all are, for a transaction, which counts
-- the room and has partitions rest at its end; until then nobody else counts it.
-- p_new: queues to be made, with their settings in p_settings; p_queues names them -1, -2, ….
-- Locks: the rows of new queues, in sorted order if p_new is; remaining_capacity's, where room counts; as push_many; start_rest_windows's, where
-- partitions rest. Errors: LW412 also where a new queue is there already; those of push_many.
create or replace function laneway.push_within_limits(
  p_queues int[], p_bodies json[], p_partitions text[] default null, p_keys text[] default null, p_headers json[] default null, p_guards smallint[] default null,
  p_new text[] default null, p_settings json[] default null, p_whole boolean default false)
returns table (idx int, run int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_count int := coalesce(cardinality(p_bodies), 0);
  v_queue record;
  v_room bigint;
  v_beyond bigint[];      -- items that did not fit
  v_fits int[];           -- items that did, where some did not
  v_run record;
  v_lanes int[] := '{}';
begin
  for i in 1..coalesce(cardinality(p_new), 0) loop
    begin
      p_queues := array_replace(p_queues, -i, laneway.create_queue(p_new[i], p_settings[i]));
    exception when sqlstate 'LW409' then
      raise exception 'queue "%" is there already', p_new[i] using errcode = 'LW412', hint = 'Read its options, and push by them.';
    end;
  end loop;
  for v_queue in
    select q.queue_id, q.name, q.dedup_scope = 'partition' as scoped, q.max_messages as most,
           case when cardinality(p_queues) = 1 then v_count else (select count(*) from unnest(p_queues) u (id) where u.id = q.queue_id) end as wanted
      from laneway.queue q where q.queue_id = any (p_queues) and q.guards & 2 > 0 order by q.queue_id
  loop
    v_room := laneway.remaining_capacity(v_queue.queue_id, v_queue.most);
    continue when p_whole or v_room >= v_queue.wanted;
    -- A duplicate needs no room; one of an item of this call fits where that does.
    v_beyond := array_cat(v_beyond, array(
      select i.n from (
        select i.n, i.known, case when i.key is null then i.needed else min(i.needed) over (partition by i.scope, i.key) end as needed from (
          select i.n, i.scope, i.key, i.known, count(*) filter (where not i.known and (i.key is null or i.nth = 1)) over (order by i.n) as needed from (
            select i.n, i.scope, i.key, k.found is not null as known, row_number() over (partition by i.scope, i.key order by i.n) as nth
              from (select i.n, i.key, case when v_queue.scoped then coalesce(i.part, '') else '' end as scope
                      from unnest(laneway.repeat_to_length(p_queues, v_count), laneway.repeat_to_length(p_partitions, v_count), laneway.repeat_to_length(p_keys, v_count)) with ordinality i (queue_id, part, key, n)
                     where i.queue_id = v_queue.queue_id) i
              left join lateral (select true as found from laneway.dedup_key k
                                  where k.queue_id = v_queue.queue_id and k.key = i.key and k.scope = i.scope and k.expires_at > clock_timestamp() offset 0) k on true) i) i) i
       where not i.known and i.needed > v_room));
  end loop;
  if cardinality(v_beyond) > 0 then
    select array_agg(i.n::int), array_agg(i.body), array_agg(i.queue_id), array_agg(i.part), array_agg(i.key), array_agg(i.headers), array_agg(i.guards)
      into v_fits, p_bodies, p_queues, p_partitions, p_keys, p_headers, p_guards
      from (select i.* from unnest(p_bodies, laneway.repeat_to_length(p_queues, v_count), laneway.repeat_to_length(p_partitions, v_count), laneway.repeat_to_length(p_keys, v_count),
                                   laneway.repeat_to_length(p_headers, v_count), laneway.repeat_to_length(p_guards, v_count)) with ordinality i (body, queue_id, part, key, headers, guards, n)
             where not exists (select from unnest(v_beyond) b (n) where b.n = i.n) order by i.n) i;
  end if;
  for v_run in
    select p.* from laneway.push_many(p_queues, p_bodies, p_partitions, null, null, p_keys, p_headers, null, null, null, p_guards) p
  loop
    -- Where some did not fit, keys are given, be they null, and every item is a run.
    idx := coalesce(v_fits[v_run.idx + 1] - 1, v_run.idx); run := v_run.run; segment := v_run.segment; lane_id := v_run.lane_id; seq := v_run.seq; duplicate := v_run.duplicate;
    if not duplicate then
      v_lanes := v_lanes || lane_id;
    end if;
    return next;
  end loop;
  if not p_whole then
    perform laneway.start_rest_windows(v_lanes);
  end if;
end $$;
