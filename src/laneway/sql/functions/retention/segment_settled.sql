-- Whether nothing unsettled points into a segment: every reader is past its messages there, none of them is
-- claimed, those put by have a copy of their own, and no lane has older messages elsewhere (a lane goes from its old
-- end only). A message put by that has no copy gets one, so that a long delay does not hold the segment.
-- Locks: none beyond the rows. Errors: none.
create or replace function laneway.segment_settled(p_segment int) returns boolean
language plpgsql set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_lane int := -1;
begin
  if pg_catalog.to_regclass(format('laneway.message_%s', p_segment)) is null then
    return false;
  end if;
  -- An idle reader has read all there is. Each of the others probes its own lane: joined, all of the segment would be read.
  if exists (
    select from laneway.reader r
     cross join lateral (select p.segment, p.seq from laneway.progress p where p.reader_id = r.reader_id order by p.step desc limit 1) p
     where r.ready and p.segment <= p_segment and p.segment % 2 = p_segment % 2
       and exists (select from laneway.message m where m.segment = p_segment and m.lane_id = r.lane_id and m.seq > p.seq
                    and not exists (select from laneway.gap g where g.reader_id = r.reader_id and g.first_seq <= m.seq and g.last_seq >= m.seq) offset 0))
     or exists (select from laneway.claim c where c.segment = p_segment) then
    return false;
  end if;
  if exists (select from laneway.segment s where s.segment < p_segment and s.segment % 2 = p_segment % 2
              and pg_catalog.to_regclass(format('laneway.message_%s', s.segment)) is not null) then
    loop
      v_lane := (select m.lane_id from laneway.message m where m.segment = p_segment and m.lane_id > v_lane order by m.lane_id limit 1);
      exit when v_lane is null;
      if exists (select from laneway.message m where m.segment < p_segment and m.segment % 2 = p_segment % 2 and m.lane_id = v_lane) then
        return false;
      end if;
    end loop;
  end if;
  insert into laneway.revision (reader_id, seq, partition, priority, created_at, lease, max_attempts, key, headers, body)
  select k.reader_id, k.seq, k.partition, k.priority, m.created_at, m.lease, m.max_attempts, m.key, m.headers, m.body
    from laneway.parked k
    cross join lateral (select m.* from laneway.message m where m.segment = p_segment and m.lane_id = k.lane_id and m.seq = k.seq offset 0) m
   where k.segment = p_segment
      on conflict do nothing;
  return true;
end $$;
