-- Shorten the lanes of one queue as the queue's own settings say. With message_ttl, messages that no consumer claimed
-- in time expire. With retention, messages that are older and settled by every group are deleted from the log, in whole
-- steps of retention_step if it has one; with policy.wait_for_lake, only those that the lake has.
-- Return how many messages were deleted from the log. Expired ones stay there until their segment is dropped.
-- Locks: the readers' advisory locks of each trimmed lane, never waiting for one: busy lanes are left for the next
-- call.
-- Errors: none.
create or replace function laneway.trim_queue(p_queue_id int) returns bigint
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_queue record;
  v_lane record;
  v_reader record;
  v_kept_since timestamptz;
  v_busy boolean;
  v_salt int := random() * 1000000000;
  v_locks int := (
    select count(*)
      from pg_catalog.pg_locks k
     where k.pid = pg_catalog.pg_backend_pid()
       and k.locktype = 'advisory');
  v_count bigint := 0;
  v_wait_for_lake boolean := (select p.wait_for_lake from laneway.policy p);
begin
  select q.queue_id, q.retention, q.retention_step, q.message_ttl, q.kind <> 'unlogged' as logged, q.record_events
    into v_queue
    from laneway.queue q
   where q.queue_id = p_queue_id;
  v_kept_since := clock_timestamp() - v_queue.retention;
  if v_queue.retention_step is not null then
    v_kept_since := date_bin(v_queue.retention_step, v_kept_since, timestamptz '2000-01-01 00:00:00+00');
  end if;

  -- In another order every time, so that lanes that cannot be trimmed do not keep the others from it.
  for v_lane in
    select l.lane_id, l.base
      from laneway.lane l
     where l.queue_id = p_queue_id
     order by pg_catalog.hashint4(l.lane_id # v_salt)
  loop
    -- This transaction keeps the locks of all lanes, also of queues before this one. The next call does the rest.
    exit when v_locks > 500;

    -- Skip lanes with nothing to do: the oldest message is too young, or (expired messages stay in the log) no reader
    -- has anything to expire or to delete behind it.
    continue when (
      select m.created_at >= greatest(v_kept_since, clock_timestamp() - v_queue.message_ttl)
        from laneway.message m
       where m.lane_id = v_lane.lane_id
         and m.seq > v_lane.base
       order by m.seq
       limit 1);
    continue when not exists (
      select from laneway.reader r
        cross join lateral laneway.newest_progress(r.reader_id) p
       where r.lane_id = v_lane.lane_id
         and ((v_queue.retention is not null and p.seq > v_lane.base)
              or (v_queue.message_ttl is not null
                  and ((select m.created_at
                          from laneway.message m
                         where m.segment >= p.segment
                           and m.lane_id = v_lane.lane_id
                           and m.seq > p.seq
                         order by m.seq
                         limit 1) < clock_timestamp() - v_queue.message_ttl
                       or exists (
                         select
                           from (select k.*
                                   from laneway.parked k
                                  where k.reader_id = r.reader_id
                                  order by k.seq
                                  limit 1) k
                          where (select c.created_at >= clock_timestamp() - v_queue.message_ttl
                                   from laneway.message_content(k.reader_id, k.segment, k.lane_id, k.seq) c)
                                is not true)))));

    -- Lock the readers.
    v_busy := false;
    for v_reader in
      select r.reader_id from laneway.reader r where r.lane_id = v_lane.lane_id order by r.reader_id
    loop
      if not laneway.try_lock_reader(v_reader.reader_id) then
        v_busy := true;
        exit;
      end if;
      v_locks := v_locks + 1;
    end loop;
    continue when v_busy;

    if v_queue.message_ttl is not null then
      perform laneway.expire_lane(p_queue_id, v_lane.lane_id, v_lane.base, v_queue.logged, v_queue.message_ttl,
                                  v_queue.record_events);
    end if;
    if v_queue.retention is not null then
      v_count := v_count
        + laneway.trim_lane(v_lane.lane_id, v_lane.base, v_queue.logged, v_kept_since, v_wait_for_lake);
    end if;
  end loop;
  return v_count;
end $$;
