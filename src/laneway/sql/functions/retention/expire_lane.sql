-- Expire the messages of a lane that were pushed longer than p_message_ttl ago and that no consumer has claimed:
-- readers skip them. The caller has the readers' locks. p_base: the lane's base.
-- Locks: none of its own. Errors: none.
create or replace function laneway.expire_lane(
  p_queue_id int, p_lane_id int, p_base bigint, p_logged boolean, p_message_ttl interval, p_record_events boolean)
returns void
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_reader record;
  v_progress record;
  v_last bigint := laneway.seq_before(p_lane_id, p_logged, clock_timestamp() - p_message_ttl);
  v_expired int8multirange;
begin
  for v_reader in
    select r.reader_id, r.group_id
      from laneway.reader r
     where r.lane_id = p_lane_id
     order by r.reader_id
  loop
    -- Parked messages. The age of a message below the base is known from its copy, no longer from the log.
    with removed as (
      delete from laneway.parked k
       where k.reader_id = v_reader.reader_id
         and k.seq <= v_last
         and (k.seq > p_base
              or (select c.created_at < clock_timestamp() - p_message_ttl
                    from laneway.message_content(k.reader_id, k.segment, k.lane_id, k.seq) c) is not false)
      returning k.seq),
    deleted_copy as (
      delete from laneway.revision v
       using removed t
       where v.reader_id = v_reader.reader_id
         and v.seq = t.seq)
    select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_expired
      from removed t;

    -- Messages ahead of the reader. It does not move past leased messages that it skips (rewind_reader).
    select p.place, p.segment, p.seq, p.token, p.not_before, p.exceptions_until into v_progress
      from laneway.newest_progress(v_reader.reader_id) p;
    if v_last > v_progress.seq then
      v_expired := v_expired + (int8multirange(int8range(v_progress.seq + 1, v_last + 1)) - coalesce(
        (select range_agg(int8range(g.first_seq, g.last_seq, '[]'))
           from laneway.gap g
          where g.reader_id = v_reader.reader_id
            and g.last_seq > v_progress.seq),
        '{}'));
      insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
      select v_reader.reader_id, v_progress.segment,
             case when exists (select from laneway.claim c
                                where c.reader_id = v_reader.reader_id
                                  and not c.aside
                                  and c.pending && int8multirange(int8range(v_progress.seq + 1, null)))
                  then v_progress.seq else v_last end,
             greatest(v_progress.exceptions_until, v_last), v_progress.token, v_progress.not_before,
             clock_timestamp();
      delete from laneway.progress where ctid = v_progress.place;
    end if;

    if not isempty(v_expired) then
      perform laneway.note_seqs_gone(v_reader.reader_id, v_expired);
      if p_record_events then
        perform laneway.insert_event('dropped', p_queue_id, v_reader.group_id, p_lane_id,
                                     p_first => lower(r.range), p_last => upper(r.range) - 1, p_reason => 'message_ttl')
           from unnest(v_expired) r (range);
      end if;
    end if;
  end loop;
end $$;
