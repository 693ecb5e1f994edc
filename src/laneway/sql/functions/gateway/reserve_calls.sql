-- Reserve calls at a target, which its breaker and its limits allow, for messages that the process has claimed.
-- p_process: who asks. p_wanted: new calls. p_running: calls that it has in progress. p_concurrency, p_rate: the limits
-- of all processes together, calls at once and calls per second; null: none.
-- An open breaker allows one call, a probe, every p_open_for.
-- A process that does not call this again within p_hold has no calls in progress.
-- Return how many calls may begin, when to ask again if that is fewer (null: when a call has ended), and whether the
-- breaker is open.
-- Locks: the target's row. Errors: none.
create or replace function laneway.reserve_calls(
  p_target text,
  p_process uuid,
  p_wanted int,
  p_running int,
  p_concurrency int default null,
  p_rate double precision default null,
  p_open_for interval default '30 seconds',
  p_hold interval default '2 minutes')
returns table (granted int, retry_in interval, is_open boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_now timestamptz;
  v_target laneway.gateway_target;
  v_burst double precision := greatest(1, p_rate);
  v_tokens double precision;
begin
  insert into laneway.gateway_target (name) values (p_target) on conflict do nothing;
  select t.* into v_target
    from laneway.gateway_target t
   where t.name = p_target
     for update;
  v_now := clock_timestamp();
  granted := p_wanted;
  is_open := v_target.opened_at is not null;
  if is_open then
    granted := case when v_target.probe_at <= v_now then least(granted, 1) else 0 end;
    retry_in := greatest(v_target.probe_at - v_now, interval '0');
  end if;

  if p_concurrency is not null then
    delete from laneway.gateway_slot s
     where s.target = p_target
       and s.expires_at <= v_now;
    granted := greatest(0, least(granted, p_concurrency - p_running - coalesce((
      select sum(s.calls)
        from laneway.gateway_slot s
       where s.target = p_target
         and s.process <> p_process), 0)::int));
  end if;
  if p_rate is not null then
    v_tokens := case
      when v_target.refilled_at is null then v_burst
      else least(v_burst, v_target.tokens + p_rate * greatest(0, extract(epoch from v_now - v_target.refilled_at))) end;
    if granted > floor(v_tokens) then
      granted := floor(v_tokens);
      retry_in := greatest(retry_in, make_interval(secs => (granted + 1 - v_tokens) / p_rate));
    end if;
    update laneway.gateway_target t
       set tokens = v_tokens - granted,
           refilled_at = v_now
     where t.name = p_target;
  end if;
  if is_open and granted > 0 then
    update laneway.gateway_target t
       set probe_at = v_now + p_open_for
     where t.name = p_target;
  end if;
  if p_concurrency is not null then
    insert into laneway.gateway_slot (target, process, calls, expires_at)
    values (p_target, p_process, p_running + granted, v_now + p_hold)
    on conflict (target, process) do update
       set calls = excluded.calls,
           expires_at = excluded.expires_at;
  end if;
  return next;
end $$;
