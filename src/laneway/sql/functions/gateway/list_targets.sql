-- Return what all gateway processes know about targets: the breakers, and the calls in progress at targets with a limit
-- on concurrency.
-- Locks: none. Errors: none.
create or replace function laneway.list_targets()
returns table (name text, failures int, reason text, opened_at timestamptz, probe_in interval, calls bigint)
language sql stable
set search_path = ''
as $$
  select t.name, t.failures, t.reason, t.opened_at, t.probe_at - clock_timestamp(),
         (select sum(s.calls)
            from laneway.gateway_slot s
           where s.target = t.name
             and s.expires_at > clock_timestamp())
    from laneway.gateway_target t
   order by t.name;
$$;
