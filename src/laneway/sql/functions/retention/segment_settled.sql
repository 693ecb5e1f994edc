-- Return whether a segment can be dropped: every reader is past its messages there, none of them is claimed, and no
-- lane has older messages in another segment, because a lane is shortened only from its old end. A parked message does
-- not keep a segment: if it has no copy in revision, it gets one.
-- Locks: none beyond the rows. Errors: none.
create or replace function laneway.segment_settled(p_segment int) returns boolean
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_lane int := -1;
begin
  if pg_catalog.to_regclass(format('laneway.message_%s', p_segment)) is null then
    return false;
  end if;

  -- Readers and claims. An idle reader has read everything. Each other reader probes its own lane: a plain join would
  -- read the whole segment.
  if exists (
    select from laneway.reader r
      cross join lateral laneway.newest_progress(r.reader_id) p
     where r.ready
       and p.segment <= p_segment
       and laneway.is_logged(p.segment) = laneway.is_logged(p_segment)
       and exists (
         select from laneway.message m
          where m.segment = p_segment
            and m.lane_id = r.lane_id
            and m.seq > p.seq
            and not exists (
              select from laneway.gap g
               where g.reader_id = r.reader_id
                 and g.first_seq <= m.seq
                 and g.last_seq >= m.seq)
         offset 0))
     or exists (select from laneway.claim c where c.segment = p_segment) then
    return false;
  end if;

  -- Older messages of the same lanes.
  if exists (
    select from laneway.segment s
     where s.segment < p_segment
       and laneway.is_logged(s.segment) = laneway.is_logged(p_segment)
       and pg_catalog.to_regclass(format('laneway.message_%s', s.segment)) is not null) then
    loop
      v_lane := laneway.next_lane_of_segment(p_segment, v_lane);
      exit when v_lane is null;
      if exists (
        select from laneway.message m
         where m.segment < p_segment
           and laneway.is_logged(m.segment) = laneway.is_logged(p_segment)
           and m.lane_id = v_lane) then
        return false;
      end if;
    end loop;
  end if;

  -- Copies of parked messages.
  insert into laneway.revision (reader_id, seq, partition, priority, created_at, lease, max_attempts, key, headers,
                                body)
  select k.reader_id, k.seq, k.partition, k.priority, m.created_at, m.lease, m.max_attempts, m.key, m.headers, m.body
    from laneway.parked k
    cross join lateral (
      select m.*
        from laneway.message m
       where m.segment = p_segment
         and m.lane_id = k.lane_id
         and m.seq = k.seq
      offset 0) m
   where k.segment = p_segment
      on conflict do nothing;
  return true;
end $$;
