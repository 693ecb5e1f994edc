-- Check where a group is to start: 'all', 'new', or 'time' with a time.
-- Locks: none. Errors: LW422 an invalid start.
create or replace function laneway.check_group_start(p_group text, p_start text, p_from timestamptz) returns void
language plpgsql
set search_path = ''
as $$
begin
  if p_start is null or p_start not in ('all', 'new', 'time') or (p_start = 'time') <> (p_from is not null) then
    raise exception 'group "%" cannot start at "%"', p_group, p_start
      using errcode = 'LW422', hint = 'Use all, new, or time with a timestamp.';
  end if;
end $$;
