-- Revoke an API key. An API key that is revoked already stays so. Locks: the row. Errors: LW404 no such API key.
create or replace function laneway.revoke_api_key(p_key_id text) returns void
language plpgsql
set search_path = ''
as $$
begin
  update laneway.api_key k
     set revoked_at = coalesce(k.revoked_at, clock_timestamp())
   where k.key_id = p_key_id;
  if not found then
    raise exception 'API key "%" does not exist', p_key_id
      using errcode = 'LW404', hint = 'List the API keys to see their ids.';
  end if;
end $$;
