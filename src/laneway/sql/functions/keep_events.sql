-- Sets how long events are kept and shown. Locks: the row of policy, if it changes. Errors: none.
create or replace function laneway.keep_events(p_retention interval) returns void
language sql set search_path = '' as $$
  update laneway.policy set event_retention = p_retention where event_retention <> p_retention;
$$;
