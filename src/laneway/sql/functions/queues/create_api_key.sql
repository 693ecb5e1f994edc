-- Store a new API key: its hash, its role (read, write or admin) and the pattern of the queues it is limited to (null:
-- no limit). Locks: none beyond the row. Errors: LW409 the id is in use, LW422 an unknown role or an empty name or
-- pattern.
create or replace function laneway.create_api_key(
  p_key_id text, p_name text, p_role text, p_queue_pattern text, p_hash bytea)
returns void
language plpgsql
set search_path = ''
as $$
begin
  insert into laneway.api_key (key_id, name, role, queue_pattern, hash)
  values (p_key_id, p_name, p_role, p_queue_pattern, p_hash);
exception
  when unique_violation then
    raise exception 'API key "%" already exists', p_key_id
      using errcode = 'LW409', hint = 'Create an API key with another id.';
  when check_violation or not_null_violation then
    raise exception 'API key "%": %', p_name, sqlerrm
      using errcode = 'LW422', hint = 'The role is read, write or admin. Name and pattern must not be empty.';
end $$;
