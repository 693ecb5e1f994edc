-- Return where a group starts in a queue that it has not read yet: at the stored start, or, at the first contact, at
-- the requested one (p_start: all, new, or time with p_from), which is then stored. For the queue's own group, the row
-- records that consumers read with it.
-- Locks: the row. Errors: LW404 unknown queue, LW422 an invalid start, or a name that is too long.
create or replace function laneway.subscribe(
  p_queue text, p_name text, p_start text, p_from timestamptz, out start text, out since timestamptz)
language plpgsql
set search_path = ''
as $$
declare
  v_queue int := laneway.find_queue(p_queue);
begin
  perform laneway.check_group_start(p_name, p_start, p_from);
  select s.since into since
    from laneway.stream_subscription s
   where s.group_name = p_name
     and s.queue_id in (0, v_queue)
   order by s.queue_id desc
   limit 1;
  if found then
    start := case when since is null then 'all' else 'time' end;
    return;
  end if;
  insert into laneway.stream_subscription (group_name, queue_id, mode, since)
  values (p_name, v_queue, p_start, case when p_start = 'new' then clock_timestamp() else p_from end)
  on conflict do nothing;
  start := p_start;
  since := p_from;
exception when program_limit_exceeded then
  perform laneway.raise_long_name('a group''s name', octet_length(p_name));
end $$;
