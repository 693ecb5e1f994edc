-- Count the messages of some queues that were pushed, claimed, acked, failed (nacked or expired) and dead-lettered in
-- each step of a range of time. Locks: none. Errors: LW422 an invalid step, or an infinite p_from.
create or replace function laneway.stream_activity(
  p_queue_ids int[], p_from timestamptz, p_to timestamptz, p_step interval)
returns table (at timestamptz, pushed bigint, claimed bigint, acked bigint, failed bigint, dead bigint)
language plpgsql stable
set search_path = ''
as $$
begin
  if p_step <= interval '0' or extract(year from p_step) <> 0 or extract(month from p_step) <> 0
     or laneway.exceeds_interval_limit(array[p_step]) then
    raise exception 'invalid step: %', p_step
      using errcode = 'LW422',
            hint = 'A step is positive, at most 365250 days, and in days or shorter units, because months differ.';
  end if;
  if not isfinite(p_from) then
    raise exception 'steps must start at a finite time, not %', p_from
      using errcode = 'LW422', hint = 'Give the time at which the first step starts.';
  end if;
  return query
  select date_bin(p_step, e.at, p_from),
         coalesce(sum(e.messages) filter (where e.action = 'pushed'), 0)::bigint,
         coalesce(sum(e.messages) filter (where e.action = 'claimed'), 0)::bigint,
         coalesce(sum(e.messages) filter (where e.action = 'acked'), 0)::bigint,
         coalesce(sum(e.messages) filter (where e.action in ('nacked', 'expired')), 0)::bigint,
         coalesce(sum(e.messages) filter (where e.action = 'dead'), 0)::bigint
    from (select v.at, v.action, v.last_seq - v.first_seq + 1 as messages
            from laneway.events v
           where v.queue_id = any (p_queue_ids)
             and v.at >= p_from
             and v.at < p_to
             and v.action in ('pushed', 'claimed', 'acked', 'nacked', 'expired', 'dead')) e
   group by 1
   order by 1;
end $$;
