-- Change settings of a queue; settings that p_settings does not name keep their values. Return the queue's id.
-- p_settings: a JSON object whose members are columns of laneway.queue. kind and ordered can be set only on creation,
-- when create_queue calls this with p_new.
-- Locks: the row, then its groups'. Errors: LW404 no such queue, LW422 an unknown, fixed or invalid setting.
create or replace function laneway.update_queue(p_name text, p_settings json, p_new boolean default false) returns int
language plpgsql
set search_path = ''
as $$
declare
  v_old laneway.queue;
  v_new laneway.queue;
  v_setting text;
  v_constraint text;
  v_column text;
begin
  select q.* into v_old
    from laneway.queue q
   where q.name = p_name
     for update;
  if not found then
    raise exception 'queue "%" does not exist', p_name
      using errcode = 'LW404', hint = 'Create the queue first.';
  end if;
  if json_typeof(p_settings) is distinct from 'object' then
    raise exception 'queue "%": settings must be an object, not %', p_name, coalesce(json_typeof(p_settings), 'null')
      using errcode = 'LW422', hint = 'Write {"lease": "1 minute"}.';
  end if;

  begin
    -- Refuse settings that do not exist or cannot change.
    select k into v_setting
      from json_object_keys(p_settings) k
     where k not in (
             'kind', 'ordered', 'lease', 'max_attempts', 'backoff', 'backoff_factor', 'backoff_limit', 'delay',
             'dedup_window', 'dedup_scope', 'retention', 'retention_step', 'message_ttl', 'max_bytes', 'record_events',
             'durable_claims', 'max_messages', 'rest_window', 'dead_letter_after', 'keep_dead_letters',
             'dead_letter_queue', 'dead_letter_source', 'max_receives', 'encrypted', 'default_group_optional',
             'individual_acks', 'expiry_backoff', 'description', 'options')
        or (not p_new and k in ('kind', 'ordered'))
     limit 1;
    if found then
      raise exception 'queue "%": setting "%" %', p_name, v_setting,
          case when v_setting in ('kind', 'ordered') then 'is fixed when the queue is created' else 'is unknown' end
        using errcode = 'LW422';
    end if;

    -- Read the values, and refuse those that no constraint of the table covers.
    v_new := json_populate_record(v_old, p_settings);
    if json_typeof(v_new.options) <> 'object' then
      raise exception 'options must be an object, not %', json_typeof(v_new.options)
        using errcode = 'check_violation';
    end if;
    if v_new.backoff_factor >= 'infinity' then
      raise exception 'queue "%": setting "backoff_factor" must be finite, not %',
          p_name, p_settings ->> 'backoff_factor'
        using errcode = 'LW422', hint = 'Give a number of 1 or more.';
    end if;
    select s.key into v_setting
      from json_each_text(p_settings) s
     where case when s.key in ('lease', 'backoff', 'backoff_limit', 'delay', 'dedup_window', 'retention',
                               'retention_step', 'message_ttl', 'rest_window', 'dead_letter_after')
                then laneway.exceeds_interval_limit(array[s.value::interval]) end
     limit 1;
    if found then
      raise exception 'queue "%": setting "%" is too long: %', p_name, v_setting, p_settings ->> v_setting
        using errcode = 'LW422', hint = 'The limit is 1000 years (365250 days).';
    end if;

    -- Store them. The protocols write 0 for "none" of some intervals.
    update laneway.queue
       set kind = v_new.kind,
           ordered = v_new.ordered,
           lease = v_new.lease,
           max_attempts = v_new.max_attempts,
           backoff = v_new.backoff,
           backoff_factor = v_new.backoff_factor,
           backoff_limit = v_new.backoff_limit,
           delay = nullif(v_new.delay, interval '0'),
           dedup_window = v_new.dedup_window,
           dedup_scope = v_new.dedup_scope,
           retention = v_new.retention,
           retention_step = v_new.retention_step,
           message_ttl = v_new.message_ttl,
           max_bytes = v_new.max_bytes,
           record_events = v_new.record_events,
           durable_claims = v_new.durable_claims,
           max_messages = v_new.max_messages,
           rest_window = nullif(v_new.rest_window, interval '0'),
           dead_letter_after = nullif(v_new.dead_letter_after, interval '0'),
           keep_dead_letters = v_new.keep_dead_letters,
           dead_letter_queue = v_new.dead_letter_queue,
           dead_letter_source = v_new.dead_letter_source,
           max_receives = v_new.max_receives,
           encrypted = v_new.encrypted,
           default_group_optional = v_new.default_group_optional,
           individual_acks = v_new.individual_acks,
           expiry_backoff = v_new.expiry_backoff,
           description = v_new.description,
           options = v_new.options,
           updated_at = clock_timestamp()
     where queue_id = v_old.queue_id;
  exception
    when data_exception or program_limit_exceeded or check_violation or not_null_violation then
      get stacked diagnostics v_constraint = constraint_name, v_column = column_name;
      perform laneway.raise_invalid_setting(p_name, p_settings, v_constraint, v_column, sqlerrm);
  end;

  update laneway.consumer_group
     set lease = v_new.lease,
         record_events = v_new.record_events,
         durable_claims = (ordered or v_new.durable_claims) and v_new.kind <> 'unlogged'
   where queue_id = v_old.queue_id;
  if v_new.kind = 'unlogged' and p_new then
    perform laneway.rotate();
  end if;
  if not p_new then
    perform laneway.insert_event('queue_updated', v_old.queue_id, p_detail => p_settings);
  end if;
  return v_old.queue_id;
end $$;
