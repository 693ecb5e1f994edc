-- Push the rows that Spark tasks staged for one epoch of a run, once: an epoch that was published to this queue before
-- is left as it is. All in one transaction, so an epoch is published as a whole or not at all.
-- p_attempts: the attempts of the tasks that count, in order; p_counts: how many rows each staged. Rows that other
-- attempts staged for the epoch are deleted.
-- Return how many messages were pushed, or null if the epoch was published before.
-- Locks: those of push_many; a concurrent call for the same epoch waits.
-- Errors: LW404 unknown queue, LW409 the run belongs to another queue, or staged rows are missing; those of push_many.
create or replace function laneway.publish_staged(
  p_run text, p_epoch bigint, p_queue text, p_attempts text[], p_counts bigint[])
returns bigint
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
declare
  v_queue int := laneway.find_queue(p_queue);
  v_batch_size int := 2000;
  v_batch record;
  v_first bigint;
  v_count bigint;
  v_other_queue int;
begin
  insert into laneway.published (run, epoch, queue_id, messages)
  values (p_run, p_epoch, v_queue, coalesce((select sum(c) from unnest(p_counts) c), 0))
  on conflict do nothing;
  if not found then
    select p.queue_id into v_other_queue
      from laneway.published p
     where p.run = p_run and p.epoch = p_epoch;
    if v_other_queue <> v_queue then
      raise exception 'run "%" was published to queue "%" before', p_run,
          (select coalesce(max(q.name), '(deleted)') from laneway.queue q where q.queue_id = v_other_queue)
        using errcode = 'LW409', hint = 'Choose another name for the run: a run publishes to one queue only.';
    end if;
    perform laneway.forget_staged(p_run, p_epoch);
    return null;
  end if;

  for i in 1..coalesce(cardinality(p_attempts), 0) loop
    select count(*) into v_count
      from laneway.staged s
     where s.attempt = p_attempts[i];
    if v_count <> p_counts[i] then
      raise exception 'only % of % rows of % are still staged', v_count, p_counts[i], p_attempts[i]
        using errcode = 'LW409', hint = 'Write them again.';
    end if;
    for v_first in select g from generate_series(0, p_counts[i] - 1, v_batch_size) g loop
      -- A column that is the same in all rows is given to push_many once, and one that no row sets not at all.
      select array_agg(s.body order by s.place) as bodies,
             case when min(s.partition) = max(s.partition) and count(s.partition) = count(*)
                  then array[min(s.partition)]
                  when count(s.partition) > 0 then array_agg(s.partition order by s.place) end as partitions,
             case when min(s.priority) = max(s.priority) and count(s.priority) = count(*)
                  then array[min(s.priority)::smallint]
                  when count(s.priority) > 0 then array_agg(s.priority::smallint order by s.place) end as priorities,
             case when count(s.delay) > 0
                  then array_agg(pg_catalog.make_interval(secs => s.delay) order by s.place) end as delays,
             case when count(s.key) > 0 then array_agg(s.key order by s.place) end as keys,
             case when count(s.headers) > 0 then array_agg(s.headers order by s.place) end as headers
        into v_batch
        from laneway.staged s
       where s.attempt = p_attempts[i]
         and s.place >= v_first
         and s.place < v_first + v_batch_size;
      perform laneway.push_many(array[v_queue], v_batch.bodies, v_batch.partitions, v_batch.priorities, v_batch.delays,
                                v_batch.keys, v_batch.headers);
    end loop;
  end loop;

  perform laneway.forget_staged(p_run, p_epoch);
  -- A stream repeats its last epoch at most, so older ones need not be known.
  delete from laneway.published p where p.run = p_run and p.epoch < p_epoch - 100;
  return (select coalesce(sum(c), 0) from unnest(p_counts) c);
end $$;
