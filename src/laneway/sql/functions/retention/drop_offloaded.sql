-- Record that a segment's messages are in the lake, and drop the segment if every group has settled them. Return
-- whether it was dropped. If not, a later call or retention drops it.
-- p_lanes, p_last: parallel arrays of the lanes that were compared with the lake, and up to which seq.
-- Locks: the advisory lock on segment; access exclusive on message, waiting a second at most.
-- Errors: LW404 no such closed segment, LW409 it has messages that were not compared.
create or replace function laneway.drop_offloaded(p_segment int, p_lanes int[], p_last bigint[]) returns boolean
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
declare
  v_lane int := -1;
  v_last bigint;
begin
  perform pg_catalog.pg_advisory_xact_lock('laneway.segment'::regclass::oid::int, 0);
  if not exists (select from laneway.segment s where s.segment = p_segment and s.closed_at is not null)
     or pg_catalog.to_regclass(format('laneway.message_%s', p_segment)) is null then
    raise exception 'segment % does not exist, or is still written to', p_segment
      using errcode = 'LW404', hint = 'Only closed segments can be offloaded.';
  end if;

  -- This waits for pushes that still write to the segment.
  perform pg_catalog.set_config('lock_timeout', '1s', true);
  begin
    lock table laneway.message in access exclusive mode;
  exception when lock_not_available then
    return false;
  end;

  -- Check that the lake has each lane's newest message.
  loop
    v_lane := laneway.next_lane_of_segment(p_segment, v_lane);
    exit when v_lane is null;
    v_last := (
      select m.seq
        from laneway.message m
       where m.segment = p_segment
         and m.lane_id = v_lane
       order by m.seq desc
       limit 1);
    if v_last is distinct from p_last[array_position(p_lanes, v_lane)] then
      raise exception 'lane % has messages up to % in segment %, but they were compared up to %', v_lane, v_last,
          p_segment, coalesce(p_last[array_position(p_lanes, v_lane)], 0)
        using errcode = 'LW409', hint = 'Land and compare the segment again.';
    end if;
  end loop;

  insert into laneway.offloaded (segment) values (p_segment) on conflict do nothing;
  if not laneway.segment_settled(p_segment) then
    return false;
  end if;
  perform laneway.advance_lane_bases(p_segment);
  perform laneway.drop_log_partition('message', p_segment);
  return true;
end $$;
