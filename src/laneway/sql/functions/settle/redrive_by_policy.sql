-- Move dead letters of a queue to its dead_letter_queue, oldest first. A queue without one keeps its dead letters.
-- If the dead_letter_queue does not exist, requeue those with more than max_receives attempts in their own queue, with
-- no attempts counted.
-- p_queue_id null: all queues. p_limit: dead letters of each queue at most.
-- Return the queues that got messages, with the number of messages.
-- Locks: the readers' advisory locks, in order of lane; the dead letters' rows; those of push_many.
-- Errors: none of its own.
create or replace function laneway.redrive_by_policy(p_queue_id int default null, p_limit int default 1000)
returns table (queue_id int, messages int)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_source record;
  v_dead record;         -- arrays, one element per message
begin
  for v_source in
    select q.queue_id, q.record_events, q.max_receives, g.group_id,
           t.queue_id as target_id,
           t.name as target,
           coalesce(q.dead_letter_source, q.name) as source
      from laneway.queue q
      left join laneway.queue t on t.name = q.dead_letter_queue
      join laneway.consumer_group g
        on g.queue_id = q.queue_id
       and g.name = 'default'
     where q.dead_letter_queue is not null
       and (p_queue_id is null or q.queue_id = p_queue_id)
       and exists (select from laneway.dead_letter d where d.group_id = g.group_id)
     order by q.queue_id
  loop
    perform laneway.lock_reader(r.reader_id)
       from (select distinct d.lane_id, d.reader_id
               from (select o.lane_id, o.reader_id
                       from laneway.dead_letter o
                      where o.group_id = v_source.group_id
                      order by o.died_at, o.seq
                      limit p_limit) d
              order by d.lane_id
             offset 0) r;

    -- The target does not exist: requeue the dead letters.
    if v_source.target_id is null then
      select count(*)::int
        into messages
        from (select array_agg(d.segment) as segments, array_agg(d.lane_id) as lanes, array_agg(d.seq) as seqs
                from (select o.segment, o.lane_id, o.seq, o.attempt
                        from laneway.dead_letter o
                       where o.group_id = v_source.group_id
                       order by o.died_at, o.seq
                       limit p_limit) d
               where d.attempt > v_source.max_receives) d
       cross join lateral laneway.move_messages(
               v_source.group_id, d.segments, d.lanes, d.seqs, 'dead', 'queued') m;
      if messages > 0 then
        queue_id := v_source.queue_id;
        return next;
      end if;
      continue;
    end if;

    -- Remove them from their queue.
    with removed as (
      delete from laneway.dead_letter
       where ctid = any (array(
               select d.ctid
                 from laneway.dead_letter d
                where d.group_id = v_source.group_id
                order by d.died_at, d.seq
                limit p_limit
                  for update skip locked))
      returning *)
    select count(*)::int as messages,
           array_agg(d.reader_id) as readers,
           array_agg(d.segment) as segments,
           array_agg(d.lane_id) as lanes,
           array_agg(d.seq) as seqs,
           array_agg(d.created_at) as created,
           array_agg(d.partition) as partitions,
           array_agg(d.priority) as priorities,
           array_agg(d.key) as keys,
           array_agg(d.headers) as headers,
           array_agg(d.body) as bodies,
           array_agg(d.attempt) as attempts
      into v_dead
      from (select r.* from removed r order by r.died_at, r.seq) d;
    continue when v_dead.messages = 0;
    perform laneway.note_seqs_gone(g.reader_id, g.seqs)
       from (select u.reader_id, range_agg(int8range(u.seq, u.seq, '[]')) as seqs
               from unnest(v_dead.readers, v_dead.seqs) u (reader_id, seq)
              group by u.reader_id) g;

    -- Push them to the target. The last claim, which exceeded max_receives, delivered the message to no consumer.
    perform laneway.forward_many(
      array[v_source.target_id], v_source.source, v_dead.segments, v_dead.lanes, v_dead.seqs, v_dead.created,
      v_dead.partitions, v_dead.priorities, v_dead.keys, v_dead.headers, v_dead.bodies,
      array(select least(a.attempt, v_source.max_receives)::smallint
              from unnest(v_dead.attempts) with ordinality a (attempt, n)
             order by a.n));
    if v_source.record_events then
      perform laneway.insert_event(
                'moved', v_source.queue_id, v_source.group_id, u.lane_id, u.segment, u.seq, u.seq, u.attempt,
                p_reason => format('moved to the dead-letter queue "%s"', v_source.target),
                p_detail => json_build_object('from', 'dead', 'to', 'deleted', 'of', v_dead.messages))
         from unnest(v_dead.lanes, v_dead.segments, v_dead.seqs, v_dead.attempts) u (lane_id, segment, seq, attempt);
    end if;
    queue_id := v_source.target_id;
    messages := v_dead.messages;
    return next;
  end loop;
end $$;
