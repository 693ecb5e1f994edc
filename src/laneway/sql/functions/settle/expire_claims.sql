-- End claims whose lease has ended, oldest first: their messages are ready again, or dead letters if out of attempts.
-- p_limit: claims at most; p_since: skip leases that ended until then, which were handled before, so that the index
-- scan does not pass their deleted entries.
-- Return a row per claim: the queue, the group and the number of messages. A claim that fails raises a warning and
-- returns 0 messages; the others end.
-- Locks: those of return_messages, claim by claim; claims whose rows are locked are left for the next call. Errors:
-- none.
create or replace function laneway.expire_claims(p_limit int default 1000, p_since timestamptz default null)
returns table (queue_id int, group_id int, messages int)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();     -- a bound that the index can use
  v_due record;                               -- arrays, one element per claim
  v_messages int[] := '{}';
begin
  select array_agg(c.token) as tokens,
         array_agg(c.lane_id) as lanes,
         array_agg(c.part) as parts,
         array_agg(c.pending) as pending,
         array_agg(c.group_id) as groups,
         array_agg(g.queue_id) as queues
    into v_due
    from (select o.token, o.lane_id, o.part, o.pending, o.group_id
            from laneway.claim o
           where o.until <= v_now
             and o.until > coalesce(p_since, '-infinity')
             -- a claim of an ordered group ends as a whole, except in FIFO queues
             and not (exists (
                        select
                          from laneway.claim i
                         where i.token = o.token
                           and (i.until > v_now) is true)
                      and (select i.ordered and not i.fifo
                             from laneway.consumer_group i
                            where i.group_id = o.group_id) is true)
           order by o.until
           limit greatest(p_limit, 0)) c
    left join lateral (
      select o.queue_id
        from laneway.consumer_group o
       where o.group_id = c.group_id) g on true;

  -- End all of them, or, if that fails, each in a subtransaction of its own.
  begin
    for i in 1..coalesce(cardinality(v_due.tokens), 0) loop
      v_messages[i] := (
        select count(*)
          from laneway.return_messages(
                 v_due.tokens[i], v_due.lanes[i], v_due.parts[i], v_due.pending[i],
                 'retry', null, null, null, 'expired'));
    end loop;
  exception
    when others then
      for i in 1..cardinality(v_due.tokens) loop
        begin
          v_messages[i] := (
            select count(*)
              from laneway.return_messages(
                     v_due.tokens[i], v_due.lanes[i], v_due.parts[i], v_due.pending[i],
                     'retry', null, null, null, 'expired'));
        exception
          when others then
            v_messages[i] := 0;
            raise warning 'expiry of a claim failed, of group % in queue %: %',
              v_due.groups[i], v_due.queues[i], sqlerrm;
        end;
      end loop;
  end;
  return query
    select u.queue_id, u.group_id, u.messages
      from unnest(v_due.queues, v_due.groups, v_messages) u (queue_id, group_id, messages);
end $$;
