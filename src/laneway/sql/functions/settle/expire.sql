-- Ends claims whose time is up, oldest first, at most p_limit. p_since: claims that ended before it have been
-- dealt with already (spares a walk over their remains). Answers the queues that have messages again.
-- One that cannot be ended is told by a warning, and answered with no messages; the others end.
-- Locks: as return_messages, claim by claim; claims that somebody is settling right now are left for the next time.
-- Errors: none.
create or replace function laneway.expire(p_limit int default 1000, p_since timestamptz default null) returns table (queue_id int, group_id int, messages int)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();     -- a bound the index can use
  v_due record;                               -- arrays
  v_messages int[] := '{}';
begin
  select array_agg(c.token) as tokens, array_agg(c.lane_id) as lanes, array_agg(c.part) as parts, array_agg(c.pending) as pending, array_agg(c.group_id) as groups, array_agg(g.queue_id) as queues into v_due
    from (select c.token, c.lane_id, c.part, c.pending, c.group_id from laneway.claim c
           where c.until <= v_now and c.until > coalesce(p_since, '-infinity')
             -- an ordered claim ends as a whole
             and not ((select g.ordered from laneway.consumer_group g where g.group_id = c.group_id) is true
                      and exists (select from laneway.claim o where o.token = c.token and (o.until > v_now) is true))
           order by c.until limit greatest(p_limit, 0)) c
    left join lateral (select o.queue_id from laneway.consumer_group o where o.group_id = c.group_id) g on true;
  begin
    for i in 1..coalesce(cardinality(v_due.tokens), 0) loop
      v_messages[i] := (select count(*) from laneway.return_messages(v_due.tokens[i], v_due.lanes[i], v_due.parts[i], v_due.pending[i], 'retry', null, null, null, 'expired'));
    end loop;
  exception
    when others then
      for i in 1..cardinality(v_due.tokens) loop
        begin
          v_messages[i] := (select count(*) from laneway.return_messages(v_due.tokens[i], v_due.lanes[i], v_due.parts[i], v_due.pending[i], 'retry', null, null, null, 'expired'));
        exception
          when others then
            v_messages[i] := 0;
            raise warning 'a claim of group % in queue % cannot be ended: %', v_due.groups[i], v_due.queues[i], sqlerrm;
        end;
      end loop;
  end;
  return query select u.queue_id, u.group_id, u.messages from unnest(v_due.queues, v_due.groups, v_messages) u (queue_id, group_id, messages);
end $$;
