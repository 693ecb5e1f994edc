-- Delete workers that stopped longer than p_age ago. Return how many. Locks: the rows. Errors: none.
create or replace function laneway.purge_workers(p_age interval) returns int
language sql
set search_path = ''
as $$
  with deleted as (
    delete from laneway.worker w
     where w.state = 'stopped'
       and w.stopped_at <= clock_timestamp() - p_age
    returning 1)
  select count(*)::int from deleted;
$$;
