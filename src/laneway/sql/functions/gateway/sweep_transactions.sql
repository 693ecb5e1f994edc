-- Delete final transactions that were accepted longer than p_age ago, and idempotency keys older than p_key_age, each
-- at most p_limit. Return how many rows. Locks: the rows. Errors: none.
create or replace function laneway.sweep_transactions(p_age interval, p_key_age interval, p_limit int default 1000)
returns int
language sql
set search_path = ''
as $$
  with transactions as (
    delete from laneway.gateway_transaction t
     where t.transaction_id = any (array(
       select o.transaction_id
         from laneway.gateway_transaction o
        where o.created_at <= clock_timestamp() - p_age
          and o.final
        order by o.created_at, o.transaction_id
        limit p_limit
          for update skip locked))
    returning 1),
  keys as (
    delete from laneway.gateway_key k
     where ctid = any (array(
       select o.ctid
         from laneway.gateway_key o
        where o.created_at <= clock_timestamp() - p_key_age
        order by o.created_at
        limit p_limit
          for update skip locked))
    returning 1)
  select ((select count(*) from transactions) + (select count(*) from keys))::int;
$$;
