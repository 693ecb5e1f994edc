-- Note the result of a call of a webhook endpoint. An endpoint that has failed for p_patience is disabled, with
-- p_disable at once; one that succeeds is forgotten.
-- Return whether it is disabled now, and whether this call disabled it.
-- Locks: the endpoint's row. Errors: none.
create or replace function laneway.note_webhook(
  p_url text, p_reason text, p_disable boolean default false, p_patience interval default '5 days')
returns table (disabled boolean, changed boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_was timestamptz;
begin
  disabled := false;
  changed := false;
  if p_reason is null then
    delete from laneway.gateway_endpoint e where e.url = p_url and e.disabled_at is null;
    return next;
    return;
  end if;
  insert into laneway.gateway_endpoint (url, failing_since, reason)
  values (p_url, clock_timestamp(), p_reason)
  on conflict do nothing;
  select e.disabled_at into v_was
    from laneway.gateway_endpoint e
   where e.url = p_url
     for update;
  update laneway.gateway_endpoint e
     set reason = p_reason,
         disabled_at = case
           when p_disable or e.failing_since <= clock_timestamp() - p_patience
             then coalesce(e.disabled_at, clock_timestamp())
           else e.disabled_at end
   where e.url = p_url
  returning e.disabled_at is not null, e.disabled_at is not null and v_was is null
    into disabled, changed;
  return next;
end $$;
