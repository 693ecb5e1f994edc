-- Keeps a new API key: its hash, its role (read, write, admin) and the queues it is limited to (null: none).
-- Locks: none beyond the row. Errors: LW409 the id is taken, LW422 an unknown role or an empty name or pattern.
create or replace function laneway.create_api_key(p_key_id text, p_name text, p_role text, p_queue_pattern text, p_hash bytea) returns void
language plpgsql set search_path = '' as $$
begin
  insert into laneway.api_key (key_id, name, role, queue_pattern, hash) values (p_key_id, p_name, p_role, p_queue_pattern, p_hash);
exception
  when unique_violation then
    raise exception 'key "%" already exists', p_key_id using errcode = 'LW409', hint = 'Make another one.';
  when check_violation or not_null_violation then
    raise exception 'key "%": %', p_name, sqlerrm using errcode = 'LW422', hint = 'The role is read, write or admin; a name and a pattern are not empty.';
end $$;
