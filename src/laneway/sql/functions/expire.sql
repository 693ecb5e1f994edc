-- Ends claims whose time is up, oldest first, at most p_limit. p_since: claims that ended before it have been
-- dealt with already (spares a walk over their remains). Answers the queues that have messages again.
-- Locks: as give_back, claim by claim; claims that somebody is settling right now are left for the next time.
-- Errors: none.
create or replace function laneway.expire(p_limit int default 1000, p_since timestamptz default null) returns table (queue_id int, group_id int, messages int)
language plpgsql set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();     -- a bound the index can use
  v_claim record;
begin
  for v_claim in
    select c.token, c.part, c.pending, c.group_id, g.queue_id
      from (select c.token, c.part, c.pending, c.group_id from laneway.claim c
             where c.until <= v_now and c.until > coalesce(p_since, '-infinity')
               -- an ordered claim ends as a whole
               and not ((select g.ordered from laneway.consumer_group g where g.group_id = c.group_id) is true
                        and exists (select from laneway.claim o where o.token = c.token and (o.until > v_now) is true))
             order by c.until limit greatest(p_limit, 0)) c
      left join lateral (select o.queue_id from laneway.consumer_group o where o.group_id = c.group_id) g on true
  loop
    queue_id := v_claim.queue_id; group_id := v_claim.group_id;
    messages := (select count(*) from laneway.give_back(v_claim.token, v_claim.part, v_claim.pending, 'retry', null, null, null, 'expired'));
    return next;
  end loop;
end $$;
