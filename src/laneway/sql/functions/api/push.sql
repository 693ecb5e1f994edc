-- Pushes one message, for people at a prompt; answers its id. Its commit wakes who waits, unless another push is about to wake
-- somebody: then they find it within a second. Inside a longer transaction of your own use outbox_push, which holds
-- nobody up. Locks: as push_many, and notify_at_commit's. Errors: LW404 unknown queue, LW413 body too big,
-- LW422 no body, a priority out of range, a delay of more than 1000 years, or a partition or key that is too long.
create or replace function laneway.push(
  p_queue text, p_body json, p_partition text default '', p_priority int default 0, p_delay interval default null, p_key text default null, p_headers json default null)
returns text
language plpgsql set search_path = '' as $$
declare
  v_queue int := (select q.queue_id from laneway.queue q where q.name = p_queue);
  v_id text;
begin
  if v_queue is null then
    raise exception 'queue "%" does not exist', p_queue using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if p_priority not between 0 and 32767 then
    raise exception 'a message cannot have the priority %', p_priority using errcode = 'LW422', hint = 'It goes from 0 to 32767.';
  end if;
  select laneway.message_id(p.segment, p.lane_id, p.seq) into v_id
    from laneway.push_many(array[v_queue], array[p_body], array[p_partition], array[p_priority::smallint], case when p_delay is not null then array[p_delay] end,
      case when p_key is not null then array[p_key] end, case when p_headers is not null then array[p_headers] end) p;
  perform laneway.notify_at_commit(':' || v_queue || '+');
  return v_id;
end $$;
