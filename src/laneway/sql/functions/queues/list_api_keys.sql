-- Return the API keys, oldest first: all of them with p_revoked, else those that are not revoked.
-- Locks: none. Errors: none.
create or replace function laneway.list_api_keys(p_revoked boolean default false)
returns table (
  key_id text, name text, role text, queue_pattern text, hash bytea, created_at timestamptz, revoked_at timestamptz)
language sql stable
set search_path = ''
as $$
  select k.key_id, k.name, k.role, k.queue_pattern, k.hash, k.created_at, k.revoked_at
    from laneway.api_key k
   where p_revoked or k.revoked_at is null
   order by k.created_at, k.key_id;
$$;
