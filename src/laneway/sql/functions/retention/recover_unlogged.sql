-- After a crash that emptied the UNLOGGED segments, remove the lost messages from the readers of unlogged queues, so
-- that the counts are exact again. Do nothing if there was no crash.
-- One call is a step of up to 200 lanes. Return null at the end, else the lane to continue after: call again with it,
-- in another transaction.
-- Locks: the lanes' and readers' advisory locks, and the claims' rows, in order of token. Errors: none.
create or replace function laneway.recover_unlogged(p_after int default null) returns int
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_lane record;
  v_reader record;
  v_progress record;
  v_last bigint; -- the newest seq that may have been lost
  v_lost int8multirange;
  v_lanes int := 0;
  v_after int;
begin
  if exists (select from laneway.intact) then
    return null;
  end if;
  for v_lane in
    select l.lane_id
      from laneway.lane l
      join laneway.queue q on q.queue_id = l.queue_id
     where q.kind = 'unlogged'
       and l.lane_id > coalesce(p_after, 0)
     order by l.lane_id
     limit 200
  loop
    v_lanes := v_lanes + 1;
    v_after := v_lane.lane_id;
    perform pg_catalog.pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, v_lane.lane_id);
    perform laneway.lock_reader(r.reader_id)
       from (select r.reader_id
               from laneway.reader r
              where r.lane_id = v_lane.lane_id
              order by r.reader_id
             offset 0) r;
    continue when not exists (select from laneway.lane l where l.lane_id = v_lane.lane_id);

    v_last := coalesce(
      (select m.seq - 1
         from laneway.message m
        where m.lane_id = v_lane.lane_id
        order by m.seq
        limit 1),
      laneway.newest_seq(v_lane.lane_id, laneway.current_segment(false)));
    for v_reader in select r.reader_id from laneway.reader r where r.lane_id = v_lane.lane_id loop
      -- A message with a copy was not lost.
      v_lost := int8multirange(int8range(null, v_last, '(]')) - coalesce(
        (select range_agg(int8range(v.seq, v.seq, '[]'))
           from laneway.revision v
          where v.reader_id = v_reader.reader_id
            and v.seq <= v_last),
        '{}');
      delete from laneway.parked where reader_id = v_reader.reader_id and v_lost @> seq;
      perform from laneway.claim c where c.reader_id = v_reader.reader_id order by c.token, c.part for update;
      delete from laneway.claim where reader_id = v_reader.reader_id and pending <@ v_lost;
      update laneway.claim
         set pending = pending - v_lost
       where reader_id = v_reader.reader_id
         and pending && v_lost;

      select p.place, p.segment, p.seq, p.exceptions_until, p.token into v_progress
        from laneway.newest_progress(v_reader.reader_id) p;
      if v_progress.seq < v_last then
        insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
        values (v_reader.reader_id, v_progress.segment, v_last, greatest(v_progress.exceptions_until, v_last),
                v_progress.token, null, clock_timestamp());
        delete from laneway.progress where ctid = v_progress.place;
      end if;
    end loop;
    perform laneway.advance_lane_base(v_lane.lane_id, v_last);
  end loop;
  if v_lanes = 200 then
    return v_after;
  end if;
  insert into laneway.intact default values on conflict do nothing;
  return null;
end $$;
