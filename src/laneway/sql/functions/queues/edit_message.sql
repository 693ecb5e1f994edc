-- Changes what a group sees of one message that is in state p_from (queued, processing or dead): partition,
-- priority, body, headers, lease, max_attempts; what p_changes does not name stays. The id stays. A queued
-- message of a shared group comes next within its priority; one being processed shows the change when it is
-- handed out again. p_body and p_headers, where given, go before those in p_changes, in which neither \u0000 nor
-- a body of null can be written. Answers whether there was such a message.
-- Locks: the reader's advisory lock. Errors: LW413 body too big, LW422 bad change.
create or replace function laneway.edit_message(
  p_group_id int, p_segment int, p_lane_id int, p_seq bigint, p_from text, p_changes json, p_body json default null, p_headers json default null) returns boolean
language plpgsql set search_path = '' as $$
declare
  v_queue record;
  v_reader int;
  v_old laneway.revision;
  v_new laneway.revision;
  v_key text;
  v_parked laneway.parked;
begin
  select q.queue_id, q.name, q.max_bytes, q.record_events, g.ordered into v_queue
    from laneway.consumer_group g join laneway.queue q on q.queue_id = g.queue_id where g.group_id = p_group_id;
  if json_typeof(p_changes) is distinct from 'object' then
    raise exception 'message %: changes are an object, not %', laneway.message_id(p_segment, p_lane_id, p_seq), coalesce(json_typeof(p_changes), 'nothing') using errcode = 'LW422', hint = 'Write {"priority": 5}.';
  end if;
  begin
    v_key := (select k from json_object_keys(p_changes) k
               where k not in ('partition', 'priority', 'body', 'headers', 'lease', 'max_attempts') or (v_queue.ordered and k in ('partition', 'priority')) limit 1);
  exception when data_exception then
    raise exception 'message %: %', laneway.message_id(p_segment, p_lane_id, p_seq), sqlerrm using errcode = 'LW422', hint = 'Give a body or headers with \u0000 apart.';
  end;
  if v_key is not null then
    raise exception 'message %: "%" cannot be changed', laneway.message_id(p_segment, p_lane_id, p_seq), v_key using errcode = 'LW422',
      hint = 'partition, priority (not in ordered groups), body, headers, lease and max_attempts can be.';
  end if;
  select r.reader_id into v_reader from laneway.reader r where r.group_id = p_group_id and r.lane_id = p_lane_id;
  if not found then
    return false;
  end if;
  perform pg_catalog.pg_advisory_xact_lock('laneway.reader'::regclass::oid::int, v_reader);
  if p_from is null or p_from not in ('queued', 'processing', 'dead') or laneway.message_state(v_reader, p_segment, p_lane_id, p_seq) is distinct from p_from then
    return false;
  end if;
  if p_from = 'dead' then
    select d.reader_id, d.seq, d.partition, d.priority, d.created_at, d.lease, d.max_attempts, d.key, d.headers, d.body into v_old
      from laneway.dead_letter d where d.reader_id = v_reader and d.seq = p_seq;
  else
    select v_reader, p_seq, c.partition, c.priority, c.created_at, c.lease, c.max_attempts, c.key, c.headers, c.body into v_old
      from laneway.message_content(v_reader, p_segment, p_lane_id, p_seq) c;
  end if;
  begin
    v_new := json_populate_record(v_old, p_changes);
  exception when data_exception then
    raise exception 'message %: %', laneway.message_id(p_segment, p_lane_id, p_seq), sqlerrm using errcode = 'LW422';
  end;
  v_new.body := coalesce(p_body, v_new.body);
  v_new.headers := coalesce(p_headers, v_new.headers);
  if v_new.body is null or v_new.partition is null or v_new.priority is null or v_new.max_attempts < 1 or v_new.lease <= interval '0' then
    raise exception 'message %: body, partition and priority must not be null, lease and max_attempts must be positive', laneway.message_id(p_segment, p_lane_id, p_seq) using errcode = 'LW422';
  end if;
  if laneway.exceeds_interval_limit(array[v_new.lease]) then
    perform laneway.raise_long_interval(array[v_new.lease]);
  end if;
  -- It is found by an index wherever it is parked, later too.
  if octet_length(v_new.partition) > 1300 and v_new.partition <> v_old.partition then
    perform laneway.raise_long_address(v_queue.name, v_new.partition, null);
  end if;
  perform laneway.check_sizes(v_queue.name, v_queue.max_bytes, array[v_new.body]);

  if p_from = 'dead' then
    update laneway.dead_letter set partition = v_new.partition, priority = v_new.priority, lease = v_new.lease, max_attempts = v_new.max_attempts,
           headers = v_new.headers, body = v_new.body where reader_id = v_reader and seq = p_seq;
    if not found then
      return false; -- replayed just now
    end if;
  else
    if p_from = 'queued' then
      perform from laneway.parked where reader_id = v_reader and seq = p_seq for update;
      if not found and laneway.message_state(v_reader, p_segment, p_lane_id, p_seq) is distinct from 'queued' then
        return false; -- claimed just now
      end if;
    end if;
    delete from laneway.revision where reader_id = v_reader and seq = p_seq;
    insert into laneway.revision select v_new.*;
    if p_from = 'queued' then
      update laneway.parked set partition = v_new.partition, priority = v_new.priority where reader_id = v_reader and seq = p_seq;
      if not found and v_queue.ordered then
        perform laneway.note_exceptions_ahead(v_reader, p_seq);
      elsif not found then
        perform laneway.skip_message(v_reader, p_seq);
        insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at, attempt)
        select v_reader, p_seq, p_segment, p_group_id, p_lane_id, v_new.partition, v_new.priority, coalesce(m.deliver_at, m.created_at), 0
          from laneway.message m where m.segment = p_segment and m.lane_id = p_lane_id and m.seq = p_seq;
      end if;
    end if;
  end if;
  if v_queue.record_events then
    perform laneway.insert_event('edited', v_queue.queue_id, p_group_id, p_lane_id, p_segment, p_seq, p_seq);
  end if;
  return true;
end $$;
