-- Drop segments that are past retention and that nothing unsettled refers to, oldest first, and events that are past
-- theirs; trim queues that keep less. With policy.wait_for_lake, a segment stays until the lake has it. Return the
-- dropped segments.
-- Locks: the advisory lock on segment; access exclusive on message or event while a segment is dropped, waiting a tenth
-- of a second at most (the next call tries again). Errors: none.
create or replace function laneway.retain() returns setof int
language plpgsql
set search_path = ''
as $$
declare
  v_policy laneway.policy;
  v_segment record;
  v_queue record;
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.segment'::regclass::oid::int, 0);
  perform pg_catalog.set_config('lock_timeout', '100ms', true);
  select p.* into v_policy from laneway.policy p;

  -- In random order, because trim_queue stops when this transaction has too many locks.
  for v_queue in
    select q.queue_id
      from laneway.queue q
     where q.retention is not null or q.message_ttl is not null
     order by random()
  loop
    perform laneway.trim_queue(v_queue.queue_id);
  end loop;

  for v_segment in
    select s.segment, s.closed_at
      from laneway.segment s
     where s.closed_at <= clock_timestamp() - least(v_policy.retention, v_policy.event_retention)
     order by s.segment / 2, s.segment desc
  loop
    begin
      if v_segment.closed_at <= clock_timestamp() - v_policy.retention
         and not exists (select from laneway.queue q where q.retention > clock_timestamp() - v_segment.closed_at)
         and (not v_policy.wait_for_lake
              or exists (select from laneway.offloaded o where o.segment = v_segment.segment))
         and laneway.segment_settled(v_segment.segment) then
        lock table laneway.message in access exclusive mode;
        if laneway.segment_settled(v_segment.segment) then
          perform laneway.advance_lane_bases(v_segment.segment);
          perform laneway.drop_log_partition('message', v_segment.segment);
          return next v_segment.segment;
        end if;
      end if;
      -- Events are kept as long as messages for which more may be written, of both segments of the pair.
      if laneway.is_logged(v_segment.segment)
         and v_segment.closed_at <= clock_timestamp() - v_policy.event_retention
         and pg_catalog.to_regclass(format('laneway.message_%s', v_segment.segment)) is null
         and pg_catalog.to_regclass(format('laneway.message_%s', v_segment.segment + 1)) is null then
        perform laneway.drop_log_partition('event', v_segment.segment);
      end if;
    exception when lock_not_available then
      null; -- a query is reading the table; the next call tries again
    end;
  end loop;

  delete from laneway.offloaded o
   where pg_catalog.to_regclass(format('laneway.message_%s', o.segment)) is null;
  delete from laneway.segment s
   where s.closed_at is not null
     and pg_catalog.to_regclass(format('laneway.message_%s', s.segment)) is null
     and pg_catalog.to_regclass(format('laneway.event_%s', s.segment)) is null;
end $$;
