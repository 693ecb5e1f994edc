-- Deletes all messages of a group that were pushed from p_from to p_to, both included, whatever state they are in.
-- Works on ranges of seqs, so it costs the same for one message as for a million. A step of up to 500 lanes: answers how
-- many messages in all, and the lane it came to. Where that is not null there are more: call again with both of them.
-- Locks: the readers' advisory locks, in order of lane, and their claims' rows, in order of token; lanes', never waiting for one.
-- Errors: LW404 unknown group, LW422 no time given.
create or replace function laneway.delete_between(
  p_group_id int, p_from timestamptz, p_to timestamptz, p_after int default null, p_deleted bigint default 0, out deleted bigint, out after int)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_queue record;
  v_reader record;
  v_claim record;
  v_first bigint;
  v_last bigint;
  v_place bigint;
  v_log int8multirange;
  v_all int8multirange;
  v_part int8multirange;
  v_aside int8multirange;
  v_lanes int := 0;
begin
  deleted := coalesce(p_deleted, 0);
  if p_from is null or p_to is null then
    raise exception 'a range of time needs both its ends' using errcode = 'LW422';
  end if;
  select q.queue_id, q.kind <> 'unlogged' as logged into v_queue
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = p_group_id;
  if not found then
    raise exception 'group % does not exist', p_group_id using errcode = 'LW404', hint = 'It or its queue was deleted; look it up again.';
  end if;
  for v_reader in
    select r.reader_id, r.lane_id from laneway.reader r where r.group_id = p_group_id and r.lane_id > coalesce(p_after, 0) order by r.lane_id limit 500
  loop
    v_lanes := v_lanes + 1;
    after := v_reader.lane_id;
    perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id);
    continue when not exists (select from laneway.reader r where r.reader_id = v_reader.reader_id); -- its lane was removed just now
    v_first := laneway.seq_before(v_reader.lane_id, v_queue.logged, p_from);
    v_last := laneway.seq_before(v_reader.lane_id, v_queue.logged, least(p_to, '294276-12-31 23:59:59.999998+00') + interval '1 microsecond'); -- there is no moment after the last one
    v_log := int8multirange(int8range(v_first + 1, greatest(v_first, v_last) + 1));
    -- what outlived its segment is known by its copy
    v_all := v_log + coalesce((select range_agg(int8range(v.seq, v.seq, '[]')) from laneway.revision v
                                where v.reader_id = v_reader.reader_id and v.created_at between p_from and p_to), '{}');
    with taken as (delete from laneway.archive where reader_id = v_reader.reader_id and created_at between p_from and p_to returning seq)
    select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_aside from taken t;
    -- What somebody claims or gives back right now goes from one of these to another: until it is in none.
    loop
      with taken as (delete from laneway.dead_letter where reader_id = v_reader.reader_id and created_at between p_from and p_to returning seq)
      select v_aside + coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_aside from taken t;
      v_all := v_all + v_aside;
      exit when isempty(v_all);
      with taken as (delete from laneway.parked where reader_id = v_reader.reader_id and v_all @> seq returning seq)
      select v_aside + coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_aside from taken t;
      perform from laneway.claim c where c.reader_id = v_reader.reader_id and c.pending && v_all order by c.token, c.part for update;
      with taken as (delete from laneway.claim where reader_id = v_reader.reader_id and pending <@ v_all returning pending)
      select v_aside + coalesce(range_agg(t.pending), '{}') into v_aside from taken t;
      for v_claim in select c.token, c.lane_id, c.part, c.pending * v_all as hit from laneway.claim c where c.reader_id = v_reader.reader_id and c.pending && v_all loop
        update laneway.claim set pending = pending - v_all where token = v_claim.token and lane_id = v_claim.lane_id and part = v_claim.part;
        v_aside := v_aside + v_claim.hit;
      end loop;
      exit when not exists (select from laneway.parked k where k.reader_id = v_reader.reader_id and v_all @> k.seq)
        and not exists (select from laneway.claim c where c.reader_id = v_reader.reader_id and c.pending && v_all)
        and not exists (select from laneway.dead_letter d where d.reader_id = v_reader.reader_id and d.created_at between p_from and p_to);
    end loop;
    continue when isempty(v_all);
    delete from laneway.revision where reader_id = v_reader.reader_id and v_all @> seq;
    delete from laneway.retry where reader_id = v_reader.reader_id and v_all @> seq;

    -- of the log everything that was not gone already; beside it what had been taken out of it
    v_part := coalesce((select range_agg(int8range(g.first_seq, g.last_seq, '[]')) from laneway.gap g where g.reader_id = v_reader.reader_id and g.gone), '{}');
    deleted := deleted + laneway.count_seqs(v_log - v_part) + laneway.count_seqs(v_aside - v_log);
    -- no gap lies across the reader's place, or the reader would not see it
    v_place := laneway.reader_seq(v_reader.reader_id);
    perform laneway.note_seqs_gone(v_reader.reader_id, v_all * int8multirange(int8range(null, v_place, '(]')));
    v_part := v_all * int8multirange(int8range(v_place + 1, null));
    if not isempty(v_part) then
      perform laneway.note_seqs_gone(v_reader.reader_id, v_part);
      perform laneway.note_exceptions_ahead(v_reader.reader_id, upper(v_part) - 1);
      perform laneway.mark_reader_idle(v_reader.reader_id, v_reader.lane_id);
    end if;
  end loop;
  if v_lanes = 500 then
    return;
  end if;
  after := null;
  perform laneway.insert_event('purged', v_queue.queue_id, p_group_id,
                               p_detail => json_build_object('from', p_from, 'to', p_to, 'count', deleted));
end $$;
