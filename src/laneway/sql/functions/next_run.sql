-- Where a reader that stands at p_seq goes on, and how far it may read, given the gaps ahead of it.
-- Locks: none; the caller holds the reader's. Errors: none.
create or replace function laneway.next_run(p_reader_id int, p_seq bigint, out from_seq bigint, out to_seq bigint)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_gap record;
begin
  from_seq := p_seq;
  to_seq := 9223372036854775807;
  for v_gap in
    select g.first_seq, g.last_seq from laneway.gap g where g.reader_id = p_reader_id and g.first_seq > p_seq order by g.first_seq
  loop
    if v_gap.first_seq > from_seq + 1 then
      to_seq := v_gap.first_seq - 1;
      return;
    end if;
    from_seq := v_gap.last_seq;
  end loop;
end $$;
