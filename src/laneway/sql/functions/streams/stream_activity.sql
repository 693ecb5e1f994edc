-- How many messages of some queues were pushed, claimed, acknowledged, given back and buried in each step of a range of
-- time. Locks: none. Errors: LW422 a step or a beginning from which no steps can be counted.
create or replace function laneway.stream_activity(p_queue_ids int[], p_from timestamptz, p_to timestamptz, p_step interval)
returns table (at timestamptz, pushed bigint, claimed bigint, acked bigint, failed bigint, dead bigint)
language plpgsql stable set search_path = '' as $$
begin
  if p_step <= interval '0' or extract(year from p_step) <> 0 or extract(month from p_step) <> 0 or laneway.exceeds_interval_limit(array[p_step]) then
    raise exception 'cannot count by steps of %', p_step using errcode = 'LW422', hint = 'A step is more than zero and at most 365250 days, and not in months, which are not all as long.';
  end if;
  if not isfinite(p_from) then
    raise exception 'cannot count steps from %', p_from using errcode = 'LW422', hint = 'Name the moment at which the first one begins.';
  end if;
  return query
  select date_bin(p_step, e.at, p_from), coalesce(sum(e.n) filter (where e.action = 'pushed'), 0)::bigint, coalesce(sum(e.n) filter (where e.action = 'claimed'), 0)::bigint,
         coalesce(sum(e.n) filter (where e.action = 'acked'), 0)::bigint, coalesce(sum(e.n) filter (where e.action in ('nacked', 'expired')), 0)::bigint,
         coalesce(sum(e.n) filter (where e.action = 'dead'), 0)::bigint
    from (select v.at, v.action, v.last_seq - v.first_seq + 1 as n from laneway.events v
           where v.queue_id = any (p_queue_ids) and v.at >= p_from and v.at < p_to and v.action in ('pushed', 'claimed', 'acked', 'nacked', 'expired', 'dead')) e
   group by 1 order by 1;
end $$;
