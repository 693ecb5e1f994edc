-- Return a message's state for one reader: queued, processing, acknowledged, dead or archived. Null if there is no such
-- message: it never existed, was deleted, or is no longer kept.
-- Locks: none; call it under the reader's lock to keep the answer true. Errors: none.
create or replace function laneway.message_state(p_reader_id int, p_segment int, p_lane_id int, p_seq bigint)
returns text
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_gap record;
begin
  if exists (
    select from laneway.dead_letter d
     where d.reader_id = p_reader_id and d.seq = p_seq and d.segment = p_segment) then
    return 'dead';
  elsif exists (
    select from laneway.archive a
     where a.reader_id = p_reader_id and a.seq = p_seq and a.segment = p_segment) then
    return 'archived';
  elsif exists (
    select from laneway.parked k
     where k.reader_id = p_reader_id and k.seq = p_seq and k.segment = p_segment) then
    return 'queued';
  elsif (laneway.find_claim(p_reader_id, p_seq)).segment = p_segment then
    return 'processing';
  elsif not exists (
    select from laneway.message m
     where m.segment = p_segment and m.lane_id = p_lane_id and m.seq = p_seq) then
    return null;
  end if;

  -- Gaps do not overlap, so only the last one that starts at or before the message can cover it.
  select g.last_seq, g.gone into v_gap
    from laneway.gap g
   where g.reader_id = p_reader_id
     and g.first_seq <= p_seq
   order by g.first_seq desc
   limit 1;
  if v_gap.last_seq >= p_seq then
    return case when v_gap.gone then null else 'acknowledged' end;
  end if;
  return case when p_seq > laneway.reader_seq(p_reader_id) then 'queued' else 'acknowledged' end;
end $$;
