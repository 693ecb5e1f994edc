-- Create a queue and its own group, "default", which is ordered if the queue is. Return the queue's id.
-- p_settings: a JSON object whose members are columns of laneway.queue.
-- Locks: none beyond the row.
-- Errors: LW409 the name is in use, LW422 an empty or too long name, or an unknown or invalid setting.
create or replace function laneway.create_queue(p_name text, p_settings json default '{}') returns int
language plpgsql
set search_path = ''
as $$
declare
  v_queue int;
begin
  if p_name is null or p_name = '' then
    raise exception 'a queue''s name must not be empty'
      using errcode = 'LW422', hint = 'Choose a name.';
  end if;
  begin
    insert into laneway.queue (name)
    values (p_name)
    on conflict do nothing
    returning queue_id into v_queue;
  exception when program_limit_exceeded then
    perform laneway.raise_long_name('a queue''s name', octet_length(p_name));
  end;
  if v_queue is null then
    raise exception 'queue "%" already exists', p_name
      using errcode = 'LW409', hint = 'Choose another name, or update the existing queue.';
  end if;
  perform laneway.update_queue(p_name, p_settings, true);
  insert into laneway.consumer_group (queue_id, name, ordered, lease, record_events, durable_claims, fifo)
  select q.queue_id, 'default', q.ordered, q.lease, q.record_events,
         (q.ordered or q.durable_claims) and q.kind <> 'unlogged',
         q.ordered and q.name like '%.fifo'
    from laneway.queue q
   where q.queue_id = v_queue;
  perform laneway.insert_event('queue_created', v_queue);
  return v_queue;
end $$;
