-- Forgets what was staged a day ago and never published: its job has ended. Answers how many rows.
-- Locks: the rows. Errors: none.
create or replace function laneway.sweep_staged() returns bigint
language sql set search_path = '' as $$
  with gone as (delete from laneway.staged s where s.staged_at < clock_timestamp() - interval '1 day' returning 1)
  select count(*) from gone;
$$;
