-- Push one message, for use at a prompt. Return its id.
-- The commit wakes waiting consumers, unless another push is about to notify: then they find the message within a
-- second.
-- The lane stays locked until the commit. In a longer transaction use outbox_push, which blocks no other push.
-- Locks: as push_many, and that of notify_at_commit.
-- Errors: LW404 unknown queue, LW413 body too large, LW422 no body, a priority out of range, a delay of over 1000
-- years, or a partition or key that is too long.
create or replace function laneway.push(
  p_queue text, p_body json, p_partition text default '', p_priority int default 0, p_delay interval default null,
  p_key text default null, p_headers json default null)
returns text
language plpgsql
set search_path = ''
as $$
declare
  v_queue int := laneway.find_queue(p_queue);
  v_id text;
begin
  if p_priority not between 0 and 32767 then
    raise exception 'priority must be from 0 to 32767, not %', p_priority
      using errcode = 'LW422';
  end if;
  select laneway.message_id(p.segment, p.lane_id, p.seq) into v_id
    from laneway.push_many(
           array[v_queue], array[p_body], array[p_partition], array[p_priority::smallint],
           case when p_delay is not null then array[p_delay] end,
           case when p_key is not null then array[p_key] end,
           case when p_headers is not null then array[p_headers] end) p;
  perform laneway.notify_at_commit(':' || v_queue || '+');
  return v_id;
end $$;
