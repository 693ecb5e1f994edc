-- Pushes what tasks have staged, once: an epoch of a run that was published to the queue before is left as it is. p_attempts are the
-- tasks' attempts that count, in order, and p_counts how many rows each staged; what else was staged for the epoch is
-- forgotten. All in one transaction, so that an epoch is there whole or not at all. Answers how many messages were pushed,
-- null where they were before. Locks: those of push_many; who publishes the same epoch meanwhile waits.
-- Errors: LW404 unknown queue, LW409 the run was another queue's, or staged rows are gone, and those of push_many.
create or replace function laneway.publish_staged(p_run text, p_epoch bigint, p_queue text, p_attempts text[], p_counts bigint[]) returns bigint
language plpgsql set search_path = '' set enable_seqscan = off as $$
declare
  v_queue int := (select q.queue_id from laneway.queue q where q.name = p_queue);
  v_rows record;
  v_first bigint;
  v_count bigint;
  v_before int;
begin
  if v_queue is null then
    raise exception 'queue "%" does not exist', p_queue using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  insert into laneway.published (run, epoch, queue_id, messages)
  values (p_run, p_epoch, v_queue, coalesce((select sum(c) from unnest(p_counts) c), 0)) on conflict do nothing;
  if not found then
    select p.queue_id into v_before from laneway.published p where p.run = p_run and p.epoch = p_epoch;
    if v_before <> v_queue then
      raise exception 'run "%" was published to queue "%" before', p_run, (select coalesce(max(q.name), '(deleted)') from laneway.queue q where q.queue_id = v_before)
        using errcode = 'LW409', hint = 'A run''s name stands for one job to one queue: choose another.';
    end if;
    perform laneway.forget_staged(p_run, p_epoch);
    return null;
  end if;
  for i in 1..coalesce(cardinality(p_attempts), 0) loop
    select count(*) into v_count from laneway.staged s where s.attempt = p_attempts[i];
    if v_count <> p_counts[i] then
      raise exception 'only % of % rows of % are still staged', v_count, p_counts[i], p_attempts[i] using errcode = 'LW409', hint = 'Write them again.';
    end if;
    for v_first in select g from generate_series(0, p_counts[i] - 1, 2000) g loop
      select array_agg(s.body order by s.place) as bodies,
             case when min(s.partition) = max(s.partition) and count(s.partition) = count(*) then array[min(s.partition)]
                  when count(s.partition) > 0 then array_agg(s.partition order by s.place) end as partitions,
             case when min(s.priority) = max(s.priority) and count(s.priority) = count(*) then array[min(s.priority)::smallint]
                  when count(s.priority) > 0 then array_agg(s.priority::smallint order by s.place) end as priorities,
             case when count(s.delay) > 0 then array_agg(pg_catalog.make_interval(secs => s.delay) order by s.place) end as delays,
             case when count(s.key) > 0 then array_agg(s.key order by s.place) end as keys,
             case when count(s.headers) > 0 then array_agg(s.headers order by s.place) end as headers
        into v_rows from laneway.staged s where s.attempt = p_attempts[i] and s.place >= v_first and s.place < v_first + 2000;
      perform laneway.push_many(array[v_queue], v_rows.bodies, v_rows.partitions, v_rows.priorities, v_rows.delays, v_rows.keys, v_rows.headers);
    end loop;
  end loop;
  perform laneway.forget_staged(p_run, p_epoch);
  -- A stream repeats its last epoch at most.
  delete from laneway.published p where p.run = p_run and p.epoch < p_epoch - 100;
  return (select coalesce(sum(c), 0) from unnest(p_counts) c);
end $$;
