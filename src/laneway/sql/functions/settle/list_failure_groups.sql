-- Return a group's dead letters by the signature of their reasons, the most frequent first: how many, when the first
-- and the last died, and the reason of the last.
-- Locks: none. Errors: none.
create or replace function laneway.list_failure_groups(p_group_id int, p_limit int)
returns table (signature text, messages int, first_at timestamptz, last_at timestamptz, reason text)
language sql stable
set search_path = ''
as $$
  select laneway.failure_signature(d.reason) as signature,
         count(*)::int as messages,
         min(d.died_at) as first_at,
         max(d.died_at) as last_at,
         (array_agg(d.reason order by d.died_at desc, d.seq desc))[1] as reason
    from laneway.dead_letter d
   where d.group_id = p_group_id
   group by 1
   order by 2 desc, 1
   limit p_limit
$$;
