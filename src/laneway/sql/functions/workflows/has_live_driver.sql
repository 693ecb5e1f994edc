-- Return whether the message of a run's driver is still queued or in flight. p_driver: "token/id" or, before the
-- message is claimed, "/id".
-- Locks: none; the caller has the run's row. Errors: none.
create or replace function laneway.has_live_driver(p_driver text) returns boolean
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
  select exists (
    select
      from pg_catalog.regexp_match(p_driver, '/([0-9]{1,9})-([0-9]{1,10})-([0-9]{1,18})$') m (id)
      join laneway.reader r on r.lane_id = m.id[2]::bigint
      join laneway.consumer_group g on g.group_id = r.group_id and g.name = 'default'
     where laneway.message_state(r.reader_id, m.id[1]::int, r.lane_id, m.id[3]::bigint) in ('queued', 'processing'));
$$;
