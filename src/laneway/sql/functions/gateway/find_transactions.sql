-- Return transactions by their ids. Locks: none. Errors: none.
create or replace function laneway.find_transactions(p_ids uuid[]) returns setof laneway.gateway_transaction
language sql stable
set search_path = '' set enable_seqscan = off
as $$
  select t.*
    from laneway.gateway_transaction t
   where t.transaction_id = any (p_ids);
$$;
