-- Return whether anything refers to a lane: a message in the log, an event, a trace, a reader that is not idle, or a
-- claimed, parked, dead, archived or edited message of a reader.
-- Locks: none; call it under the lane's locks to keep the answer true. Errors: none.
create or replace function laneway.is_lane_used(p_lane_id int) returns boolean
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  return exists (select from laneway.reader r where r.lane_id = p_lane_id and r.ready)
      or exists (select from laneway.message m where m.lane_id = p_lane_id)
      or exists (select from laneway.event e where e.lane_id = p_lane_id)
      -- A push to several lanes is one event that names no lane. It is in the segment of the messages.
      or exists (
        select from laneway.lane l
          join laneway.queue q on q.queue_id = l.queue_id and q.record_events
          join laneway.reader r on r.lane_id = l.lane_id
          cross join lateral laneway.newest_progress(r.reader_id) p
         where l.lane_id = p_lane_id
           and pg_catalog.to_regclass(format('laneway.event_%s', laneway.event_segment(p.segment))) is not null)
      or exists (select from laneway.stream_trace t where t.lane_id = p_lane_id)
      or exists (
        select from laneway.reader r
         where r.lane_id = p_lane_id
           and (exists (select from laneway.claim c where c.reader_id = r.reader_id)
                or exists (select from laneway.parked k where k.reader_id = r.reader_id)
                or exists (select from laneway.dead_letter d where d.reader_id = r.reader_id)
                or exists (select from laneway.archive a where a.reader_id = r.reader_id)
                or exists (select from laneway.revision v where v.reader_id = r.reader_id)));
end $$;
