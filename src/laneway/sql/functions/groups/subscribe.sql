-- Where a group begins in a queue it has not read yet: as it asked at its first contact (p_start: all, new, or time with
-- a moment), unless something is remembered from before. What was asked first is remembered.
-- For the queue's own group, which is there always, it is noted that somebody reads by it.
-- Locks: the row. Errors: LW404 unknown queue, LW422 a bad start, or a name too long.
create or replace function laneway.subscribe(p_queue text, p_name text, p_start text, p_from timestamptz, out start text, out since timestamptz)
language plpgsql set search_path = '' as $$
declare
  v_queue int := (select q.queue_id from laneway.queue q where q.name = p_queue);
begin
  if v_queue is null then
    raise exception 'queue "%" does not exist', p_queue using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if p_start is null or p_start not in ('all', 'new', 'time') or (p_start = 'time') <> (p_from is not null) then
    raise exception 'group "%" cannot start at "%"', p_name, p_start using errcode = 'LW422', hint = 'Say all, new, or time with a moment.';
  end if;
  select s.since into since from laneway.stream_subscription s where s.group_name = p_name and s.queue_id in (0, v_queue) order by s.queue_id desc limit 1;
  if found then
    start := case when since is null then 'all' else 'time' end;
    return;
  end if;
  insert into laneway.stream_subscription (group_name, queue_id, mode, since)
  values (p_name, v_queue, p_start, case when p_start = 'new' then clock_timestamp() else p_from end) on conflict do nothing;
  start := p_start;
  since := p_from;
exception when program_limit_exceeded then
  perform laneway.raise_long_name('a group''s name', octet_length(p_name));
end $$;
