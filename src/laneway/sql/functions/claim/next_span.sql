-- Where a reader that stands at p_seq goes on, and how far it may read, given the gaps ahead of it. Seqs that are no
-- longer kept, or were lost with an UNLOGGED segment, are passed like gaps.
-- Locks: none; the caller holds the reader's. Errors: none.
create or replace function laneway.next_span(p_reader_id int, p_seq bigint, out from_seq bigint, out to_seq bigint)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_gap record;
  v_at record;
begin
  from_seq := p_seq;
  to_seq := 9223372036854775807;
  select r.lane_id, p.segment into v_at from laneway.reader r
   cross join lateral (select p.segment from laneway.progress p where p.reader_id = r.reader_id order by p.step desc limit 1) p where r.reader_id = p_reader_id;
  for v_gap in
    select g.first_seq, g.last_seq from laneway.gap g where g.reader_id = p_reader_id and g.first_seq > p_seq order by g.first_seq
  loop
    if v_gap.first_seq > from_seq + 1 and exists (select from laneway.message m
         where m.segment >= v_at.segment and m.lane_id = v_at.lane_id and m.seq > from_seq and m.seq < v_gap.first_seq) then
      to_seq := v_gap.first_seq - 1;
      return;
    end if;
    from_seq := v_gap.last_seq;
  end loop;
end $$;
