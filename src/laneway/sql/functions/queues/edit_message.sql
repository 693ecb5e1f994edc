-- Change what one group sees of one message in state p_from (queued, processing or dead): partition, priority, body,
-- headers, lease, max_attempts. What p_changes does not name stays; the id stays. In an ordered group, partition and
-- priority are fixed.
-- A queued message of a shared group becomes the next of its priority. A message in flight shows the change when it is
-- delivered again.
-- p_body, p_headers: take precedence over those in p_changes, which cannot express \u0000 or a body of JSON null.
-- Return whether there was such a message.
-- Locks: the reader's advisory lock. Errors: LW413 body too large, LW422 an invalid change.
create or replace function laneway.edit_message(
  p_group_id int, p_segment int, p_lane_id int, p_seq bigint, p_from text, p_changes json, p_body json default null,
  p_headers json default null)
returns boolean
language plpgsql
set search_path = ''
as $$
declare
  v_id text := laneway.message_id(p_segment, p_lane_id, p_seq);
  v_queue record;
  v_reader int;
  v_old laneway.revision;
  v_new laneway.revision;
  v_field text;
begin
  -- Check the names of the fields.
  select q.queue_id, q.name, q.max_bytes, q.record_events, g.ordered into v_queue
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where g.group_id = p_group_id;
  if json_typeof(p_changes) is distinct from 'object' then
    raise exception 'message %: changes must be an object, not %', v_id, coalesce(json_typeof(p_changes), 'null')
      using errcode = 'LW422', hint = 'Write {"priority": 5}.';
  end if;
  begin
    v_field := (
      select k
        from json_object_keys(p_changes) k
       where k not in ('partition', 'priority', 'body', 'headers', 'lease', 'max_attempts')
          or (v_queue.ordered and k in ('partition', 'priority'))
       limit 1);
  exception when data_exception then
    raise exception 'message %: %', v_id, sqlerrm
      using errcode = 'LW422', hint = 'Pass a body or headers with \u0000 as p_body or p_headers.';
  end;
  if v_field is not null then
    raise exception 'message %: "%" is not a field that can change', v_id, v_field
      using errcode = 'LW422',
            hint = 'Change partition, priority (not in ordered groups), body, headers, lease or max_attempts.';
  end if;

  -- Lock the reader and read the message.
  select r.reader_id into v_reader
    from laneway.reader r
   where r.group_id = p_group_id
     and r.lane_id = p_lane_id;
  if not found then
    return false;
  end if;
  perform laneway.lock_reader(v_reader);
  if p_from is null or p_from not in ('queued', 'processing', 'dead')
     or laneway.message_state(v_reader, p_segment, p_lane_id, p_seq) is distinct from p_from then
    return false;
  end if;
  if p_from = 'dead' then
    select d.reader_id, d.seq, d.partition, d.priority, d.created_at, d.lease, d.max_attempts, d.key, d.headers, d.body
      into v_old
      from laneway.dead_letter d
     where d.reader_id = v_reader
       and d.seq = p_seq;
  else
    select v_reader, p_seq, c.partition, c.priority, c.created_at, c.lease, c.max_attempts, c.key, c.headers, c.body
      into v_old
      from laneway.message_content(v_reader, p_segment, p_lane_id, p_seq) c;
  end if;

  -- Apply the changes and check the new values.
  begin
    v_new := json_populate_record(v_old, p_changes);
  exception when data_exception then
    raise exception 'message %: %', v_id, sqlerrm
      using errcode = 'LW422';
  end;
  v_new.body := coalesce(p_body, v_new.body);
  v_new.headers := coalesce(p_headers, v_new.headers);
  if v_new.body is null or v_new.partition is null or v_new.priority is null
     or v_new.max_attempts < 1 or v_new.lease <= interval '0' then
    raise exception
        'message %: body, partition and priority must not be null, lease and max_attempts must be positive', v_id
      using errcode = 'LW422';
  end if;
  if laneway.exceeds_interval_limit(array[v_new.lease]) then
    perform laneway.raise_long_interval(array[v_new.lease]);
  end if;
  -- A parked message's partition is stored in an index, now or when the message is parked later.
  if octet_length(v_new.partition) > 1300 and v_new.partition <> v_old.partition then
    perform laneway.raise_long_address(v_queue.name, v_new.partition, null);
  end if;
  perform laneway.check_sizes(v_queue.name, v_queue.max_bytes, array[v_new.body]);

  -- Store the new version.
  if p_from = 'dead' then
    update laneway.dead_letter
       set partition = v_new.partition, priority = v_new.priority, lease = v_new.lease,
           max_attempts = v_new.max_attempts, headers = v_new.headers, body = v_new.body,
           attempt_limit = case when v_new.max_attempts is not distinct from v_old.max_attempts then attempt_limit end
     where reader_id = v_reader
       and seq = p_seq;
    if not found then
      return false; -- redriven just now
    end if;
  else
    if p_from = 'queued' then
      perform from laneway.parked where reader_id = v_reader and seq = p_seq for update;
      if not found
         and laneway.message_state(v_reader, p_segment, p_lane_id, p_seq) is distinct from 'queued' then
        return false; -- claimed just now
      end if;
    end if;
    delete from laneway.revision where reader_id = v_reader and seq = p_seq;
    insert into laneway.revision select v_new.*;
    if p_from = 'queued' then
      update laneway.parked
         set partition = v_new.partition, priority = v_new.priority
       where reader_id = v_reader
         and seq = p_seq;
      if not found and v_queue.ordered then
        perform laneway.note_exceptions_ahead(v_reader, p_seq);
      elsif not found then
        perform laneway.skip_message(v_reader, p_seq);
        insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at,
                                    attempt)
        select v_reader, p_seq, p_segment, p_group_id, p_lane_id, v_new.partition, v_new.priority,
               coalesce(m.deliver_at, m.created_at), 0
          from laneway.message m
         where m.segment = p_segment
           and m.lane_id = p_lane_id
           and m.seq = p_seq;
      end if;
    end if;
  end if;
  if v_queue.record_events then
    perform laneway.insert_event('edited', v_queue.queue_id, p_group_id, p_lane_id, p_segment, p_seq, p_seq);
  end if;
  return true;
end $$;
