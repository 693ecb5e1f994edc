-- Run the next step of every running move task: move at most p_limit messages each, and no more than the task's rate
-- allows since its last step. A task completes when nothing more can be claimed. It fails if a message names no source
-- queue, or one that does not exist.
-- Return the queues that got messages, and whether more can be moved at once.
-- Locks: the tasks' rows; those of claim_spans, ack_many and push_many. Errors: none of its own.
create or replace function laneway.run_moves(p_limit int default 500)
returns table (queue_id int, more boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_task record;
  v_want int;
  v_span record;
  v_targets int[];
  v_moved int;
begin
  for v_task in
    select t.task_id, t.target_id, t.target, t.rate, t.stepped_at, g.group_id
      from laneway.move_task t
      join laneway.consumer_group g on g.queue_id = t.queue_id and g.name = 'default'
     where t.status = 'RUNNING'
     order by t.started_at
       for update of t skip locked
  loop
    v_want := p_limit;
    if v_task.rate is not null then
      v_want := least(p_limit, floor(v_task.rate * least(extract(epoch from v_now - v_task.stepped_at), 1)));
      continue when v_want < 1;
    end if;
    v_moved := 0;
    begin
      -- In an ordered queue one waiter gets messages of one lane only, so claim for ten.
      for v_span in
        select c.token, c.segment, c.lane_id, c.first_seq, c.partition, c.priority, c.created_at, c.keys, c.headers,
               c.bodies, cardinality(c.bodies) as n
          from laneway.claim_spans(
                 v_task.group_id,
                 case when v_want < 10 then array_fill(1, array[v_want])
                      else array_fill(v_want / 10, array[10]) end) c
      loop
        -- Each message goes to the task's target or, without one, to the queue that its headers name. Older messages
        -- name only its ARN.
        v_targets := array(
          select coalesce(v_task.target_id, (
                   select q.queue_id
                     from laneway.queue q
                    where v_task.target is null
                      and q.name = coalesce(m.moved ->> 'queue', split_part(m.moved ->> 'source', ':', -1))))
            from unnest(v_span.headers, v_span.bodies) with ordinality h (headers, body, n)
           cross join lateral (select laneway.readable_headers(h.headers) -> 'moved' as moved) m
           order by h.n);
        if array_position(v_targets, null) is not null then
          raise exception 'a message has no queue to move to'
            using errcode = 'LW404';
        end if;
        perform laneway.ack_many(array[v_span.token], array[v_span.lane_id], array[v_span.first_seq],
                                 array[v_span.first_seq + v_span.n - 1]);
        perform laneway.forward_many(
          v_targets, null, array_fill(v_span.segment, array[v_span.n]), array_fill(v_span.lane_id, array[v_span.n]),
          array(select v_span.first_seq + i from generate_series(0, v_span.n - 1) i), v_span.created_at,
          array_fill(v_span.partition, array[v_span.n]), array_fill(v_span.priority, array[v_span.n]), v_span.keys,
          v_span.headers, v_span.bodies);
        v_moved := v_moved + v_span.n;
        return query
          select distinct t, v_task.rate is null from unnest(v_targets) t;
      end loop;
      update laneway.move_task
         set moved = moved + v_moved,
             stepped_at = v_now,
             status = case when v_moved = 0 then 'COMPLETED' else status end
       where task_id = v_task.task_id;
    exception
      when sqlstate 'LW404' then
        update laneway.move_task
           set status = 'FAILED',
               stepped_at = v_now,
               reason = case when v_task.target is null then 'CouldNotDetermineMessageSource'
                             else 'AWS.SimpleQueueService.NonExistentQueue' end
         where task_id = v_task.task_id;
    end;
  end loop;
end $$;
