-- Shortens one queue as its own settings say: messages that every group has settled and that are older than its
-- retention go, in whole steps of retention_step where it has one; with message_ttl, messages that nobody took in
-- time expire. With policy.wait_for_lake, only what is in the lake goes. Answers how many left the log.
-- Locks: the readers' advisory locks of a lane, while it is trimmed; lanes that are busy are left for next time.
-- Errors: none.
create or replace function laneway.trim_queue(p_queue_id int) returns bigint
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_queue record;
  v_lane record;
  v_reader record;
  v_place record;
  v_until timestamptz;
  v_last bigint;
  v_seqs int8multirange;
  v_busy boolean;
  v_salt int := random() * 1000000000;
  v_locks int := (select count(*) from pg_catalog.pg_locks k where k.pid = pg_catalog.pg_backend_pid() and k.locktype = 'advisory');
  v_rows bigint;
  v_count bigint := 0;
  v_waits boolean := (select p.wait_for_lake from laneway.policy p);
begin
  select q.queue_id, q.retention, q.retention_step, q.message_ttl, q.kind <> 'unlogged' as logged, q.record_events into v_queue from laneway.queue q where q.queue_id = p_queue_id;
  v_until := clock_timestamp() - v_queue.retention;
  if v_queue.retention_step is not null then
    v_until := date_bin(v_queue.retention_step, v_until, timestamptz '2000-01-01 00:00:00+00');
  end if;
  -- In another order every time, so that lanes that cannot be shortened keep no others from it.
  for v_lane in select l.lane_id, l.base from laneway.lane l where l.queue_id = p_queue_id order by pg_catalog.hashint4(l.lane_id # v_salt) loop
    exit when v_locks > 500; -- the rest next time: the locks of all lanes, and of queues before this one, are kept to the end
    continue when (select m.created_at >= greatest(v_until, clock_timestamp() - v_queue.message_ttl) from laneway.message m
                    where m.lane_id = v_lane.lane_id and m.seq > v_lane.base order by m.seq limit 1);
    -- What expired stays in the log until its segment goes, but the readers are past it.
    continue when not exists (
      select from laneway.reader r
        cross join lateral (select p.segment, p.seq from laneway.progress p where p.reader_id = r.reader_id order by p.step desc limit 1) p
       where r.lane_id = v_lane.lane_id
         and ((v_queue.retention is not null and p.seq > v_lane.base)
              or (v_queue.message_ttl is not null
                  and ((select m.created_at from laneway.message m where m.segment >= p.segment and m.lane_id = v_lane.lane_id and m.seq > p.seq order by m.seq limit 1)
                       < clock_timestamp() - v_queue.message_ttl
                       or exists (select from (select k.* from laneway.parked k where k.reader_id = r.reader_id order by k.seq limit 1) k
                                   where (select c.created_at >= clock_timestamp() - v_queue.message_ttl from laneway.message_content(k.reader_id, k.segment, k.lane_id, k.seq) c) is not true)))));
    v_busy := false;
    for v_reader in select r.reader_id, r.group_id from laneway.reader r where r.lane_id = v_lane.lane_id order by r.reader_id loop
      if not pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id) then
        v_busy := true;
        exit;
      end if;
      v_locks := v_locks + 1;
    end loop;
    continue when v_busy;
    if v_queue.message_ttl is not null then
      v_last := laneway.seq_before(v_lane.lane_id, v_queue.logged, clock_timestamp() - v_queue.message_ttl);
      for v_reader in select r.reader_id, r.group_id from laneway.reader r where r.lane_id = v_lane.lane_id order by r.reader_id loop
        -- below the base the log tells no ages any more; what is put by knows its own
        with taken as (
          delete from laneway.parked k where k.reader_id = v_reader.reader_id and k.seq <= v_last
             and (k.seq > v_lane.base or (select c.created_at < clock_timestamp() - v_queue.message_ttl from laneway.message_content(k.reader_id, k.segment, k.lane_id, k.seq) c) is not false)
          returning k.seq),
        forgotten as (
          delete from laneway.revision v using taken t where v.reader_id = v_reader.reader_id and v.seq = t.seq)
        select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_seqs from taken t;
        select p.ctid, p.segment, p.seq, p.token, p.not_before, p.exceptions_until into v_place from laneway.progress p where p.reader_id = v_reader.reader_id order by p.step desc limit 1;
        if v_last > v_place.seq then
          v_seqs := v_seqs + (int8multirange(int8range(v_place.seq + 1, v_last + 1)) - coalesce((
            select range_agg(int8range(g.first_seq, g.last_seq, '[]')) from laneway.gap g where g.reader_id = v_reader.reader_id and g.last_seq > v_place.seq), '{}'));
          insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
          values (v_reader.reader_id, v_place.segment, v_last, greatest(v_place.exceptions_until, v_last), v_place.token, v_place.not_before, clock_timestamp());
          delete from laneway.progress where ctid = v_place.ctid;
        end if;
        if not isempty(v_seqs) then
          perform laneway.note_seqs_gone(v_reader.reader_id, v_seqs);
          if v_queue.record_events then
            perform laneway.insert_event('dropped', p_queue_id, v_reader.group_id, v_lane.lane_id,
                                         p_first => lower(r.range), p_last => upper(r.range) - 1, p_reason => 'message_ttl')
               from unnest(v_seqs) r (range);
          end if;
        end if;
      end loop;
    end if;
    if v_queue.retention is not null then
      -- up to the first message that somebody still needs
      select min(least(laneway.reader_seq(r.reader_id), c.seq, k.seq)) into v_last
        from laneway.reader r
        left join lateral (select min(lower(c.pending)) - 1 as seq from laneway.claim c where c.reader_id = r.reader_id) c on true
        left join lateral (select min(k.seq) - 1 as seq from laneway.parked k where k.reader_id = r.reader_id) k on true
       where r.lane_id = v_lane.lane_id;
      v_last := least(v_last, laneway.seq_before(v_lane.lane_id, v_queue.logged, v_until));
      if v_waits then
        v_last := least(v_last, (
          select min(m.seq) - 1 from laneway.segment s
           cross join lateral (select o.seq from laneway.message o where o.segment = s.segment and o.lane_id = v_lane.lane_id order by o.seq limit 1) m
           where not exists (select from laneway.offloaded o where o.segment = s.segment)));
      end if;
      if v_last > v_lane.base then
        delete from laneway.message where lane_id = v_lane.lane_id and seq <= v_last;
        get diagnostics v_rows = row_count;
        v_count := v_count + v_rows;
        perform laneway.raise_lane_floor(v_lane.lane_id, v_last);
      end if;
    end if;
  end loop;
  return v_count;
end $$;
