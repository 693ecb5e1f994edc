-- Delete rows that were staged over a day ago and never published, because their job has ended. Return how many.
-- Locks: the rows. Errors: none.
create or replace function laneway.sweep_staged() returns bigint
language sql
set search_path = ''
as $$
  with deleted as (
    delete from laneway.staged s
     where s.staged_at < clock_timestamp() - interval '1 day'
    returning 1)
  select count(*) from deleted;
$$;
