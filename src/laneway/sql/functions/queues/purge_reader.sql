-- Delete the messages of one reader that are in one state, or in any (p_status null): one lane's part of purge. Return
-- how many. The caller has the reader's lock.
-- Locks: the rows of the reader's claims, in order of token; the lane's advisory lock, not waiting for it. Errors:
-- none.
create or replace function laneway.purge_reader(p_reader_id int, p_lane_id int, p_logged boolean, p_status text)
returns bigint
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_all boolean := p_status is null;
  v_base bigint := (select l.base from laneway.lane l where l.lane_id = p_lane_id);
  v_progress record;
  v_newest bigint;
  v_seqs int8multirange;
  v_purged bigint := 0;
begin
  -- Queued in the log: move the reader to the end, but not past leased messages that it skips (rewind_reader).
  if v_all or p_status = 'queued' then
    select p.place, p.segment, p.seq, p.token into v_progress
      from laneway.newest_progress(p_reader_id) p;
    v_newest := laneway.newest_seq(p_lane_id, laneway.current_segment(p_logged));
    if v_newest > v_progress.seq then
      v_seqs := int8multirange(int8range(v_progress.seq + 1, v_newest + 1)) - coalesce(
        (select range_agg(int8range(g.first_seq, g.last_seq, '[]'))
           from laneway.gap g
          where g.reader_id = p_reader_id
            and g.last_seq > v_progress.seq),
        '{}');
      insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, moved_at)
      select p_reader_id, v_progress.segment,
             case when exists (select from laneway.claim c
                                where c.reader_id = p_reader_id
                                  and not c.aside
                                  and c.pending && int8multirange(int8range(v_progress.seq + 1, null)))
                  then v_progress.seq else v_newest end,
             v_newest, v_progress.token, clock_timestamp();
      delete from laneway.progress where ctid = v_progress.place;
      v_purged := v_purged + laneway.count_seqs(v_seqs);
      perform laneway.note_seqs_gone(p_reader_id, v_seqs);
    end if;
  end if;

  -- Parked, claimed and dead. A concurrent claim or nack moves messages between these: of all states, repeat until none
  -- has any.
  loop
    v_seqs := '{}';
    if v_all or p_status = 'queued' then
      with removed as (
        delete from laneway.parked where reader_id = p_reader_id
        returning seq)
      select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_seqs
        from removed t;
    end if;
    if v_all or p_status = 'processing' then
      perform from laneway.claim c where c.reader_id = p_reader_id order by c.token, c.part for update;
      with removed as (
        delete from laneway.claim where reader_id = p_reader_id
        returning pending)
      select v_seqs + coalesce(range_agg(t.pending), '{}') into v_seqs
        from removed t;
    end if;
    if v_all or p_status = 'dead' then
      with removed as (
        delete from laneway.dead_letter where reader_id = p_reader_id
        returning seq)
      select v_seqs + coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_seqs
        from removed t;
    end if;
    v_purged := v_purged + laneway.count_seqs(v_seqs);
    perform laneway.note_seqs_gone(p_reader_id, v_seqs);
    exit when not v_all
           or not exists (select from laneway.parked k where k.reader_id = p_reader_id)
              and not exists (select from laneway.claim c where c.reader_id = p_reader_id)
              and not exists (select from laneway.dead_letter d where d.reader_id = p_reader_id);
  end loop;
  if v_all or p_status = 'queued' then
    perform laneway.mark_reader_idle(p_reader_id, p_lane_id);
  end if;

  -- Archived.
  if v_all or p_status = 'archived' then
    with removed as (
      delete from laneway.archive where reader_id = p_reader_id
      returning seq)
    select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_seqs
      from removed t;
    v_purged := v_purged + laneway.count_seqs(v_seqs);
    perform laneway.note_seqs_gone(p_reader_id, v_seqs);
  end if;

  -- Acknowledged: behind the reader or settled before their turn, and in no other state. This comes last, so that it
  -- includes what was settled meanwhile.
  if v_all or p_status = 'acknowledged' then
    select p.seq into v_progress from laneway.newest_progress(p_reader_id) p;
    v_seqs := int8multirange(int8range(v_base + 1, greatest(v_progress.seq, v_base) + 1))
      + coalesce((select range_agg(int8range(g.first_seq, g.last_seq, '[]'))
                    from laneway.gap g
                   where g.reader_id = p_reader_id
                     and g.first_seq > v_progress.seq
                     and not g.gone), '{}')
      - coalesce((select range_agg(int8range(g.first_seq, g.last_seq, '[]'))
                    from laneway.gap g
                   where g.reader_id = p_reader_id
                     and g.gone), '{}')
      - coalesce((select range_agg(int8range(k.seq, k.seq, '[]'))
                    from laneway.parked k
                   where k.reader_id = p_reader_id), '{}')
      - coalesce((select range_agg(c.pending)
                    from laneway.claim c
                   where c.reader_id = p_reader_id), '{}')
      - coalesce((select range_agg(int8range(d.seq, d.seq, '[]'))
                    from laneway.dead_letter d
                   where d.reader_id = p_reader_id), '{}')
      - coalesce((select range_agg(int8range(a.seq, a.seq, '[]'))
                    from laneway.archive a
                   where a.reader_id = p_reader_id), '{}');
    v_purged := v_purged + laneway.count_seqs(v_seqs);
    perform laneway.note_seqs_gone(p_reader_id, v_seqs);
  end if;

  -- Copies that no message needs any more. An edited message of an ordered group stays in its place ahead of the
  -- reader.
  delete from laneway.revision v
   where v.reader_id = p_reader_id
     and not exists (select from laneway.parked k where k.reader_id = v.reader_id and k.seq = v.seq)
     and (laneway.find_claim(v.reader_id, v.seq)).token is null
     and (v.seq <= laneway.reader_seq(v.reader_id)
          or exists (
            select from laneway.gap g
             where g.reader_id = v.reader_id
               and g.first_seq <= v.seq
               and g.last_seq >= v.seq));
  return v_purged;
end $$;
