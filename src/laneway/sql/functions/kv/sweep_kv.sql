-- Delete keys past their expiry, the longest expired first, at most p_limit. Return how many.
-- Locks: the rows, never waiting for one. Errors: none.
create or replace function laneway.sweep_kv(p_limit int default 1000) returns int
language sql
set search_path = ''
as $$
  with deleted as (
    delete from laneway.kv
     where ctid = any (array(
       select o.ctid
         from laneway.kv o
        where o.expires_at <= clock_timestamp()
        order by o.expires_at
        limit p_limit
          for update skip locked))
    returning 1)
  select count(*)::int from deleted;
$$;
