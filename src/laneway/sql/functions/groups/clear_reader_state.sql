-- Delete the parked messages and the claims of readers. A concurrent claim or nack moves messages between the two
-- tables: repeat until both are empty.
-- Locks: the rows; the claims' in order of lane and token, as settlements do. Errors: none.
create or replace function laneway.clear_reader_state(p_readers int[]) returns void
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  loop
    delete from laneway.parked where reader_id = any (p_readers);

    perform from laneway.claim c
      where c.reader_id = any (p_readers)
      order by c.lane_id, c.token, c.part
        for update;
    delete from laneway.claim where reader_id = any (p_readers);

    exit when not exists (select from laneway.parked k where k.reader_id = any (p_readers))
          and not exists (select from laneway.claim c where c.reader_id = any (p_readers));
  end loop;
end $$;
