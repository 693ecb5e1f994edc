-- Return whether the driver's message ("token/id") is leased by its token, in the run's queue and for its default
-- group, and names the run.
-- Locks: none; the caller has the run's row. Errors: none.
create or replace function laneway.is_driver_leased(p_run_id text, p_driver text) returns boolean
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  -- token, segment, lane, seq
  v_part text[] := pg_catalog.regexp_match(
    p_driver, '^([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})/([0-9]{1,9})-([0-9]{1,10})-([0-9]{1,18})$');
begin
  return v_part is not null and exists (
    select from laneway.claim c
      join laneway.consumer_group g on g.group_id = c.group_id and g.name = 'default'
      join laneway.workflow w on w.queue_id = g.queue_id and w.run_id = p_run_id
      cross join lateral laneway.message_content(c.reader_id, c.segment, c.lane_id, v_part[4]::bigint) m
     where c.token = v_part[1]::uuid
       and c.lane_id = v_part[3]::bigint
       and c.segment = v_part[2]::int
       and c.pending @> v_part[4]::bigint
       and c.until > clock_timestamp()
       and m.body ->> 'run' = p_run_id);
end $$;
