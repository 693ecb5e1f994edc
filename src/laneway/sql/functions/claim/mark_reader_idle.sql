-- Marks a reader idle if its lane truly has nothing more for it; the next push wakes it. Not while somebody
-- pushes to the lane or, in an ordered group, holds it. The caller holds the reader's lock.
-- Locks: the lane's advisory lock, so that no push can miss the mark. Errors: none.
create or replace function laneway.mark_reader_idle(p_reader_id int, p_lane_id int) returns boolean
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_place record;
begin
  if not pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, p_lane_id) then
    return false;
  end if;
  select p.segment, p.seq, p.token into v_place from laneway.progress p where p.reader_id = p_reader_id order by p.step desc limit 1;
  if v_place.token is not null then
    if exists (select from laneway.claim c where c.token = v_place.token) then
      return false;
    end if;
  end if;
  if exists (select from laneway.message m where m.segment >= v_place.segment and m.lane_id = p_lane_id and m.seq > v_place.seq
              and not exists (select from laneway.gap g where g.reader_id = p_reader_id and g.first_seq <= m.seq and g.last_seq >= m.seq)) then
    return false;
  end if;
  update laneway.reader set ready = false where reader_id = p_reader_id and ready;
  return found;
end $$;
