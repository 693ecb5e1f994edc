-- Delete workflow runs that ended longer than p_age ago, with their steps, at most p_limit. Return how many.
-- Locks: the rows. Errors: none.
create or replace function laneway.purge_workflows(p_age interval, p_limit int default 1000) returns int
language sql
set search_path = ''
as $$
  with deleted as (
    delete from laneway.workflow w
     where w.run_id = any (array(
       select o.run_id
         from laneway.workflow o
        where o.finished_at <= clock_timestamp() - p_age
        limit p_limit
          for update skip locked))
    returning 1)
  select count(*)::int from deleted;
$$;
