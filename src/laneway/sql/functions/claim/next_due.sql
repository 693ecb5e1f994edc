-- Return when a message of a group that cannot be claimed yet becomes due: the end of a delay or backoff or, in an
-- ordered group, of a lane's lease. Null if there is none.
-- Locks: none. Errors: none.
create or replace function laneway.next_due(p_group_id int) returns timestamptz
language plpgsql stable
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_due timestamptz;
  v_priority int := 32768;
begin
  -- Priority by priority, because that is how the index is sorted.
  loop
    v_priority := (
      select k.priority
        from laneway.parked k
       where k.group_id = p_group_id
         and k.priority < v_priority
       order by k.priority desc
       limit 1);
    exit when v_priority is null;
    v_due := least(v_due, (
      select k.available_at
        from laneway.parked k
       where k.group_id = p_group_id
         and k.priority = v_priority
       order by k.available_at
       limit 1));
  end loop;
  if (select g.ordered from laneway.consumer_group g where g.group_id = p_group_id) then
    select least(v_due, min(greatest(p.not_before, c.until, case when c.until is null then m.deliver_at end)))
      into v_due
      from (select r.reader_id, r.lane_id
              from laneway.reader r
             where r.group_id = p_group_id
               and r.ready
             limit 1000) r
      cross join lateral laneway.newest_progress(r.reader_id) p
      left join lateral (
        select max(c.until) as until
          from laneway.claim c
         where c.token = p.token) c on true
      left join lateral (
        select m.deliver_at
          from laneway.message m
         where m.segment >= p.segment
           and m.lane_id = r.lane_id
           and m.seq > p.seq
         order by m.seq
         limit 1) m on true;
  end if;
  return v_due;
end $$;
