-- Open or close a target's breaker by hand. Opened by hand, it probes the target after p_open_for, as otherwise.
-- Locks: the target's row. Errors: none.
create or replace function laneway.set_breaker(p_target text, p_open boolean, p_open_for interval default '30 seconds')
returns void
language sql
set search_path = ''
as $$
  insert into laneway.gateway_target as t (name, opened_at, probe_at, reason)
  values (p_target, case when p_open then clock_timestamp() end,
          case when p_open then clock_timestamp() + p_open_for end,
          case when p_open then 'opened by hand' end)
  on conflict (name) do update
     set opened_at = excluded.opened_at,
         probe_at = excluded.probe_at,
         failures = 0,
         reason = coalesce(excluded.reason, t.reason);
$$;
