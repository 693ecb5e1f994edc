-- Deletes all messages of a group that are in one state, or in any; what is being pushed meanwhile stays. A step of up
-- to 500 lanes, so that a wide queue does not need more locks than there are: answers how many messages in all, and the
-- lane it came to. Where that is not null there are more: call again, in another transaction, with both of them.
-- Locks: the readers' advisory locks, in order of lane, and their claims' rows, in order of token; lanes', never waiting for one.
-- Errors: LW404 unknown group, LW422 unknown state.
create or replace function laneway.purge(
  p_group_id int, p_status text default null, p_after int default null, p_purged bigint default 0, out purged bigint, out after int)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_queue record;
  v_reader record;
  v_place record;
  v_seqs int8multirange;
  v_gaps int8multirange;
  v_newest bigint;
  v_lanes int := 0;
  v_all boolean := p_status is null;
begin
  purged := coalesce(p_purged, 0);
  if p_status not in ('queued', 'processing', 'acknowledged', 'dead', 'archived') then
    raise exception 'cannot purge "%"', p_status using errcode = 'LW422', hint = 'States are queued, processing, acknowledged, dead and archived.';
  end if;
  select q.queue_id, q.kind <> 'unlogged' as logged into v_queue
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  for v_reader in
    select r.reader_id, r.lane_id, l.base from laneway.reader r join laneway.lane l on l.lane_id = r.lane_id 
     where r.group_id = p_group_id and r.lane_id > coalesce(p_after, 0) order by r.lane_id limit 500
  loop
    v_lanes := v_lanes + 1;
    after := v_reader.lane_id;
    perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id);
    continue when not exists (select from laneway.reader r where r.reader_id = v_reader.reader_id); -- its lane was removed just now
    if v_all or p_status = 'queued' then
      select p.ctid, p.segment, p.seq, p.token into v_place from laneway.progress p where p.reader_id = v_reader.reader_id order by p.step desc limit 1;
      v_newest := laneway.newest_seq(v_reader.lane_id, laneway.current_segment(v_queue.logged));
      if v_newest > v_place.seq then
        v_gaps := coalesce((select range_agg(int8range(g.first_seq, g.last_seq, '[]')) from laneway.gap g where g.reader_id = v_reader.reader_id and g.last_seq > v_place.seq), '{}');
        v_seqs := int8multirange(int8range(v_place.seq + 1, v_newest + 1)) - v_gaps;
        insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
        values (v_reader.reader_id, v_place.segment, v_newest, v_newest, v_place.token, clock_timestamp());
        delete from laneway.progress where ctid = v_place.ctid;
        purged := purged + laneway.count_seqs(v_seqs);
        perform laneway.note_seqs_gone(v_reader.reader_id, v_seqs);
      end if;
    end if;
    -- What somebody claims or gives back right now goes from one of these to another: of all, until it is in none.
    loop
      v_seqs := '{}';
      if v_all or p_status = 'queued' then
        with taken as (delete from laneway.parked where reader_id = v_reader.reader_id returning seq)
        select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_seqs from taken t;
      end if;
      if v_all or p_status = 'processing' then
        perform from laneway.claim c where c.reader_id = v_reader.reader_id order by c.token, c.part for update;
        with taken as (delete from laneway.claim where reader_id = v_reader.reader_id returning pending)
        select v_seqs + coalesce(range_agg(t.pending), '{}') into v_seqs from taken t;
      end if;
      if v_all or p_status = 'dead' then
        with taken as (delete from laneway.dead_letter where reader_id = v_reader.reader_id returning seq)
        select v_seqs + coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_seqs from taken t;
      end if;
      purged := purged + laneway.count_seqs(v_seqs);
      perform laneway.note_seqs_gone(v_reader.reader_id, v_seqs);
      exit when not v_all or not exists (select from laneway.parked k where k.reader_id = v_reader.reader_id)
        and not exists (select from laneway.claim c where c.reader_id = v_reader.reader_id)
        and not exists (select from laneway.dead_letter d where d.reader_id = v_reader.reader_id);
    end loop;
    if v_all or p_status = 'queued' then
      perform laneway.mark_reader_idle(v_reader.reader_id, v_reader.lane_id);
    end if;
    if v_all or p_status = 'archived' then
      with taken as (delete from laneway.archive where reader_id = v_reader.reader_id returning seq)
      select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_seqs from taken t;
      purged := purged + laneway.count_seqs(v_seqs);
      perform laneway.note_seqs_gone(v_reader.reader_id, v_seqs);
    end if;
    -- acknowledged last, so that what was settled meanwhile is among it
    if v_all or p_status = 'acknowledged' then
      select p.seq into v_place from laneway.progress p where p.reader_id = v_reader.reader_id order by p.step desc limit 1;
      v_seqs := int8multirange(int8range(v_reader.base + 1, greatest(v_place.seq, v_reader.base) + 1))
        + coalesce((select range_agg(int8range(g.first_seq, g.last_seq, '[]')) from laneway.gap g where g.reader_id = v_reader.reader_id and g.first_seq > v_place.seq and not g.gone), '{}')
        - coalesce((select range_agg(int8range(g.first_seq, g.last_seq, '[]')) from laneway.gap g where g.reader_id = v_reader.reader_id and g.gone), '{}')
        - coalesce((select range_agg(int8range(k.seq, k.seq, '[]')) from laneway.parked k where k.reader_id = v_reader.reader_id), '{}')
        - coalesce((select range_agg(c.pending) from laneway.claim c where c.reader_id = v_reader.reader_id), '{}')
        - coalesce((select range_agg(int8range(d.seq, d.seq, '[]')) from laneway.dead_letter d where d.reader_id = v_reader.reader_id), '{}')
        - coalesce((select range_agg(int8range(a.seq, a.seq, '[]')) from laneway.archive a where a.reader_id = v_reader.reader_id), '{}');
      purged := purged + laneway.count_seqs(v_seqs);
      perform laneway.note_seqs_gone(v_reader.reader_id, v_seqs);
    end if;
    delete from laneway.revision v where v.reader_id = v_reader.reader_id
       and not exists (select from laneway.parked k where k.reader_id = v.reader_id and k.seq = v.seq)
       and (laneway.find_claim(v.reader_id, v.seq)).token is null
       -- an edited message of an ordered group waits in its place
       and (v.seq <= laneway.reader_seq(v.reader_id) or exists (select from laneway.gap g where g.reader_id = v.reader_id and g.first_seq <= v.seq and g.last_seq >= v.seq));
  end loop;
  if v_lanes = 500 then
    return;
  end if;
  after := null;
  perform laneway.insert_event('purged', v_queue.queue_id, p_group_id,
                               p_detail => json_build_object('status', p_status, 'count', purged));
end $$;
