-- Delete expired results of handlers, oldest first, at most p_limit. Return how many. Locks: the rows. Errors: none.
create or replace function laneway.sweep_results(p_limit int default 1000) returns int
language sql
set search_path = ''
as $$
  with deleted as (
    delete from laneway.result r
     where ctid = any (array(
       select o.ctid
         from laneway.result o
        where o.expires_at <= clock_timestamp()
        order by o.expires_at
        limit p_limit
          for update skip locked))
    returning 1)
  select count(*)::int from deleted;
$$;
