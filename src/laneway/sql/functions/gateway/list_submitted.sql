-- Return transactions whose target has not reported a final status, and about which nothing was heard for p_quiet, the
-- longest first, at most p_limit.
-- Locks: none. Errors: none.
create or replace function laneway.list_submitted(p_quiet interval, p_limit int)
returns setof laneway.gateway_transaction
language sql stable
set search_path = '' set enable_seqscan = off
as $$
  select t.*
    from laneway.gateway_transaction t
   where not t.final
     and t.upstream_id is not null
     and t.updated_at <= clock_timestamp() - p_quiet
   order by t.updated_at
   limit p_limit;
$$;
