-- Set how long events are kept and shown. Locks: the row of policy, if it changes. Errors: LW422 null or negative.
create or replace function laneway.set_event_retention(p_retention interval) returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_retention is null or p_retention < interval '0' then
    raise exception 'event retention must not be null or negative: %', coalesce(p_retention::text, 'null')
      using errcode = 'LW422', hint = 'Give an interval of zero or more.';
  end if;
  update laneway.policy
     set event_retention = p_retention
   where event_retention <> p_retention;
end $$;
