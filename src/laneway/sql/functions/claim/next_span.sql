-- Return after which message (from_seq) and up to which (to_seq) a reader at p_seq reads next, given its gaps. Seqs
-- that are no longer kept, or were lost with an UNLOGGED segment, are skipped like gaps.
-- Locks: none; the caller has locked the reader. Errors: none.
create or replace function laneway.next_span(p_reader_id int, p_seq bigint, out from_seq bigint, out to_seq bigint)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_lane record;
  v_gap record;
begin
  from_seq := p_seq;
  to_seq := 9223372036854775807;
  select r.lane_id, p.segment
    into v_lane
    from laneway.reader r
    cross join lateral laneway.newest_progress(r.reader_id) p
   where r.reader_id = p_reader_id;
  for v_gap in
    select g.first_seq, g.last_seq
      from laneway.gap g
     where g.reader_id = p_reader_id
       and g.first_seq > p_seq
     order by g.first_seq
  loop
    if v_gap.first_seq > from_seq + 1
       and exists (select from laneway.message m
                    where m.segment >= v_lane.segment
                      and m.lane_id = v_lane.lane_id
                      and m.seq > from_seq
                      and m.seq < v_gap.first_seq) then
      to_seq := v_gap.first_seq - 1;
      return;
    end if;
    from_seq := v_gap.last_seq;
  end loop;
end $$;
