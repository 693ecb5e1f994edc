-- Return transactions, newest first, at most p_limit. A filter that is null matches everything; p_to is exclusive.
-- p_before, p_before_id: only those after this place in the list. p_open: only those that are not final.
-- Locks: none. Errors: none.
create or replace function laneway.list_transactions(
  p_statuses text[] default null,
  p_target text default null,
  p_from timestamptz default null,
  p_to timestamptz default null,
  p_before timestamptz default null,
  p_before_id uuid default null,
  p_limit int default 100)
returns setof laneway.gateway_transaction
language sql stable
set search_path = '' set enable_seqscan = off
as $$
  select t.*
    from laneway.gateway_transaction t
   where (p_statuses is null or t.status = any (p_statuses))
     and (p_target is null or t.target = p_target)
     and t.created_at >= coalesce(p_from, '-infinity')
     and t.created_at < coalesce(p_to, 'infinity')
     and (t.created_at, t.transaction_id)
         < (coalesce(p_before, 'infinity'), coalesce(p_before_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'))
   order by t.created_at desc, t.transaction_id desc
   limit p_limit;
$$;
