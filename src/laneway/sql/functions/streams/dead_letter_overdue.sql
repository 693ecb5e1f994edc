-- Dead-letter messages of a queue that were ready for longer than the queue's dead_letter_after, in all groups whose
-- backlog counts (list_counted_groups), at most p_limit. Return how many.
-- Locks: the readers' advisory locks, never waiting for one. Errors: none.
create or replace function laneway.dead_letter_overdue(p_queue_id int, p_limit int) returns int
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_reason text := 'waited longer than maxWaitTimeSeconds';
  v_queue record;
  v_reader record;
  v_progress record;
  v_segment int;
  v_seq bigint;
  v_last bigint;
  v_dead int8multirange;
  v_left int := p_limit;
begin
  select q.queue_id, q.record_events, q.kind <> 'unlogged' as logged, q.dead_letter_after into v_queue
    from laneway.queue q
   where q.queue_id = p_queue_id;
  for v_reader in
    select r.reader_id, r.lane_id, r.group_id
      from laneway.consumer_group g
      join laneway.reader r on r.group_id = g.group_id and r.ready
      cross join lateral laneway.newest_progress(r.reader_id) p
      cross join lateral (
        select m.created_at
          from laneway.message m
         where m.segment >= p.segment
           and m.lane_id = r.lane_id
           and m.seq > p.seq
         order by m.seq
         limit 1) m
     where g.group_id = any ((select laneway.list_counted_groups(p_queue_id))::int[])
       and m.created_at < clock_timestamp() - v_queue.dead_letter_after
     order by r.reader_id
  loop
    exit when v_left <= 0;
    continue when not laneway.try_lock_reader(v_reader.reader_id);
    select p.place, p.segment, p.seq, p.token, p.not_before, p.exceptions_until into v_progress
      from laneway.newest_progress(v_reader.reader_id) p;
    v_last := least(
      laneway.seq_before(v_reader.lane_id, v_queue.logged, clock_timestamp() - v_queue.dead_letter_after),
      v_progress.seq + v_left);

    v_dead := '{}';
    for v_segment, v_seq in
      select m.segment, m.seq
        from laneway.message m
       where m.segment >= v_progress.segment
         and m.lane_id = v_reader.lane_id
         and m.seq > v_progress.seq
         and m.seq <= v_last
         and not exists (
           select from laneway.gap g
            where g.reader_id = v_reader.reader_id
              and g.first_seq <= m.seq
              and g.last_seq >= m.seq)
       order by m.seq
    loop
      perform laneway.insert_dead_letter(
        v_reader.group_id, v_reader.reader_id, v_segment, v_reader.lane_id, v_seq,
        coalesce(
          (select t.attempt from laneway.retry t where t.reader_id = v_reader.reader_id and t.seq = v_seq),
          0::smallint),
        v_reason, null);
      delete from laneway.retry where reader_id = v_reader.reader_id and seq = v_seq;
      v_dead := v_dead + int8multirange(int8range(v_seq, v_seq, '[]'));
      v_left := v_left - 1;
    end loop;

    if v_last > v_progress.seq then
      insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
      values (v_reader.reader_id, coalesce(v_segment, v_progress.segment), v_last, v_progress.exceptions_until,
              v_progress.token, v_progress.not_before, clock_timestamp());
      delete from laneway.progress where ctid = v_progress.place;
    end if;
    if v_queue.record_events then
      perform laneway.insert_event('dead', p_queue_id, v_reader.group_id, v_reader.lane_id, v_segment,
                                   lower(r.range), upper(r.range) - 1, p_reason => v_reason)
         from unnest(v_dead) r (range);
    end if;
  end loop;
  return p_limit - v_left;
end $$;
