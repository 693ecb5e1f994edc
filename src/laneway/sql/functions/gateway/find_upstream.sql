-- Return the transaction that a target knows by this id. Locks: none. Errors: none.
create or replace function laneway.find_upstream(p_target text, p_upstream_id text)
returns setof laneway.gateway_transaction
language sql stable
set search_path = '' set enable_seqscan = off
as $$
  select t.*
    from laneway.gateway_transaction t
   where t.target = p_target
     and t.upstream_id = p_upstream_id
   order by t.created_at desc
   limit 1;
$$;
