-- Mark a reader idle if its lane has nothing more for it; the next push makes it ready again. Return whether it was
-- marked.
-- Not if another transaction pushes to the lane, or, in an ordered group, if the lane is leased. The caller has locked
-- the reader.
-- Locks: the lane's advisory lock, so that no push misses the mark; never waits for it. Errors: none.
create or replace function laneway.mark_reader_idle(p_reader_id int, p_lane_id int) returns boolean
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_position record;
begin
  if not pg_catalog.pg_try_advisory_xact_lock('laneway.lane'::regclass::oid::int, p_lane_id) then
    return false;
  end if;
  select p.segment, p.seq, p.token
    into v_position
    from laneway.newest_progress(p_reader_id) p;
  if v_position.token is not null then
    if exists (select from laneway.claim c where c.token = v_position.token) then
      return false;
    end if;
  end if;
  if exists (
    select
      from laneway.message m
     where m.segment >= v_position.segment
       and m.lane_id = p_lane_id
       and m.seq > v_position.seq
       and not exists (select from laneway.gap g
                        where g.reader_id = p_reader_id
                          and g.first_seq <= m.seq
                          and g.last_seq >= m.seq)) then
    return false;
  end if;
  update laneway.reader
     set ready = false
   where reader_id = p_reader_id
     and ready;
  return found;
end $$;
