-- What streams need from time to time: messages that waited longer than their queue's dead_letter_after become dead
-- letters in its counting_groups, at most p_limit; dead letters of queues that keep none go; so do leases that hold nothing any more, and traces
-- that are older than events are kept. p_trim: queues whose messages expire are shortened too, which costs a look at every
-- lane of theirs. A queue that this fails in is told by a warning; the others are tended. Answers the queues in which something died.
-- Locks: the readers' advisory locks, never waiting for one. Errors: none.
create or replace function laneway.maintain_streams(p_limit int default 1000, p_trim boolean default false) returns setof int
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_queue record;
  v_reader record;
  v_place record;
  v_segment int;
  v_seq bigint;
  v_last bigint;
  v_dead int8multirange;
  v_left int := p_limit;
begin
  if p_trim then
    perform laneway.trim_queue(q.queue_id) from (select q.queue_id from laneway.queue q where q.message_ttl is not null and q.options -> 'queen' is not null order by random()) q;
  end if;
  for v_queue in
    select q.queue_id, q.name, q.record_events, q.kind <> 'unlogged' as logged, q.dead_letter_after as longest
      from laneway.queue q where q.dead_letter_after is not null order by q.queue_id
  loop
    begin
      for v_reader in
        select r.reader_id, r.lane_id, r.group_id from laneway.consumer_group g join laneway.reader r on r.group_id = g.group_id and r.ready
         cross join lateral (select p.segment, p.seq from laneway.progress p where p.reader_id = r.reader_id order by p.step desc limit 1) p
         cross join lateral (select m.created_at from laneway.message m where m.segment >= p.segment and m.lane_id = r.lane_id and m.seq > p.seq order by m.seq limit 1) m
         where g.group_id = any ((select laneway.counting_groups(v_queue.queue_id))::int[]) and m.created_at < clock_timestamp() - v_queue.longest order by r.reader_id
      loop
        exit when v_left <= 0;
        continue when not pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id);
        select p.ctid, p.segment, p.seq, p.token, p.not_before, p.exceptions_until into v_place from laneway.progress p where p.reader_id = v_reader.reader_id order by p.step desc limit 1;
        v_last := least(laneway.seq_before(v_reader.lane_id, v_queue.logged, clock_timestamp() - v_queue.longest), v_place.seq + v_left);
        v_dead := '{}';
        for v_segment, v_seq in
          select m.segment, m.seq from laneway.message m
           where m.segment >= v_place.segment and m.lane_id = v_reader.lane_id and m.seq > v_place.seq and m.seq <= v_last
             and not exists (select from laneway.gap g where g.reader_id = v_reader.reader_id and g.first_seq <= m.seq and g.last_seq >= m.seq) order by m.seq
        loop
          perform laneway.insert_dead_letter(v_reader.group_id, v_reader.reader_id, v_segment, v_reader.lane_id, v_seq,
            coalesce((select t.attempt from laneway.retry t where t.reader_id = v_reader.reader_id and t.seq = v_seq), 0::smallint), 'waited longer than maxWaitTimeSeconds', null);
          delete from laneway.retry where reader_id = v_reader.reader_id and seq = v_seq;
          v_dead := v_dead + int8multirange(int8range(v_seq, v_seq, '[]'));
          v_left := v_left - 1;
        end loop;
        if v_last > v_place.seq then
          insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
          values (v_reader.reader_id, coalesce(v_segment, v_place.segment), v_last, v_place.exceptions_until, v_place.token, v_place.not_before, clock_timestamp());
          delete from laneway.progress where ctid = v_place.ctid;
        end if;
        if v_queue.record_events then
          perform laneway.insert_event('dead', v_queue.queue_id, v_reader.group_id, v_reader.lane_id, v_segment,
                                       lower(r.range), upper(r.range) - 1, p_reason => 'waited longer than maxWaitTimeSeconds')
             from unnest(v_dead) r (range);
        end if;
        return next v_queue.queue_id;
      end loop;
    exception
      when others then
        raise warning 'queue % cannot be tended: %', v_queue.name, sqlerrm;
    end;
  end loop;

  for v_reader in
    select d.reader_id, range_agg(int8range(d.seq, d.seq, '[]')) as seqs
      from laneway.queue q join laneway.consumer_group g on g.queue_id = q.queue_id
     cross join lateral (select d.reader_id, d.seq from laneway.dead_letter d where d.group_id = g.group_id order by d.died_at limit p_limit) d
     where not q.keep_dead_letters group by d.reader_id order by d.reader_id
  loop
    continue when not pg_catalog.pg_try_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader.reader_id);
    with taken as (delete from laneway.dead_letter where reader_id = v_reader.reader_id and v_reader.seqs @> seq returning seq)
    select range_agg(int8range(t.seq, t.seq, '[]')) into v_dead from taken t;
    perform laneway.note_seqs_gone(v_reader.reader_id, v_dead);
  end loop;

  delete from laneway.stream_subscription s where s.queue_id <> 0 and not exists (select from laneway.queue q where q.queue_id = s.queue_id);
  delete from laneway.stream_lease s where s.created_at < clock_timestamp() - interval '1 minute'
     and not exists (select from laneway.claim c where c.token = any (s.tokens));
  delete from laneway.stream_trace where at < clock_timestamp() - (select p.event_retention from laneway.policy p);
end $$;
