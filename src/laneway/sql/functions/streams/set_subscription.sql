-- Store that a group starts at a time in every queue that it has not read yet.
-- Locks: the rows. Errors: LW422 no name or time, or a name that is too long.
create or replace function laneway.set_subscription(p_name text, p_since timestamptz) returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_name is null or p_name = '' or p_since is null then
    raise exception 'a subscription needs a group and a time'
      using errcode = 'LW422', hint = 'Give both.';
  end if;
  delete from laneway.stream_subscription where group_name = p_name and queue_id <> 0;
  insert into laneway.stream_subscription (group_name, queue_id, mode, since)
  values (p_name, 0, 'time', p_since)
  on conflict (group_name, queue_id) do update
     set mode = 'time', since = excluded.since, created_at = clock_timestamp();
exception when program_limit_exceeded then
  perform laneway.raise_long_name('a group''s name', octet_length(p_name));
end $$;
