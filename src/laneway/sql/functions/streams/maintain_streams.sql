-- Do the periodic work of streams: dead-letter messages that were ready for longer than their queue's
-- dead_letter_after, at most p_limit; delete dead letters of queues that keep none; delete leases without claims,
-- subscriptions of deleted queues, and traces that are past the retention of events.
-- p_trim: also expire messages of queues with a message_ttl, which costs a look at every lane of theirs.
-- If the work fails for a queue, raise a warning and go on with the others. Return the queues with new dead letters.
-- Locks: the readers' advisory locks, never waiting for one. Errors: none.
create or replace function laneway.maintain_streams(p_limit int default 1000, p_trim boolean default false)
returns setof int
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_queue record;
  v_reader record;
  v_dead int8multirange;
  v_count int;
  v_left int := p_limit;
begin
  if p_trim then
    perform laneway.trim_queue(q.queue_id)
       from (select q.queue_id
               from laneway.queue q
              where q.message_ttl is not null
                and q.options -> 'queen' is not null
              order by random()) q;
  end if;

  -- Overdue messages.
  for v_queue in
    select q.queue_id, q.name
      from laneway.queue q
     where q.dead_letter_after is not null
     order by q.queue_id
  loop
    begin
      v_count := laneway.dead_letter_overdue(v_queue.queue_id, v_left);
      if v_count > 0 then
        v_left := v_left - v_count;
        return next v_queue.queue_id;
      end if;
    exception
      when others then
        raise warning 'maintenance of queue "%" failed: %', v_queue.name, sqlerrm;
    end;
  end loop;

  -- Dead letters of queues that keep none.
  for v_reader in
    select d.reader_id, range_agg(int8range(d.seq, d.seq, '[]')) as seqs
      from laneway.queue q
      join laneway.consumer_group g on g.queue_id = q.queue_id
      cross join lateral (
        select d.reader_id, d.seq
          from laneway.dead_letter d
         where d.group_id = g.group_id
         order by d.died_at
         limit p_limit) d
     where not q.keep_dead_letters
     group by d.reader_id
     order by d.reader_id
  loop
    continue when not laneway.try_lock_reader(v_reader.reader_id);
    with removed as (
      delete from laneway.dead_letter
       where reader_id = v_reader.reader_id
         and v_reader.seqs @> seq
      returning seq)
    select range_agg(int8range(t.seq, t.seq, '[]')) into v_dead
      from removed t;
    perform laneway.note_seqs_gone(v_reader.reader_id, v_dead);
  end loop;

  -- Rows that nothing needs any more.
  delete from laneway.stream_subscription s
   where s.queue_id <> 0
     and not exists (select from laneway.queue q where q.queue_id = s.queue_id);
  delete from laneway.stream_lease s
   where s.created_at < clock_timestamp() - interval '1 minute'
     and not exists (select from laneway.claim c where c.token = any (s.tokens));
  delete from laneway.stream_trace
   where at < clock_timestamp() - (select p.event_retention from laneway.policy p);
end $$;
