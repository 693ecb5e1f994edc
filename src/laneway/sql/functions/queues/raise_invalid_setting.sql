-- Raise the error for a queue setting that the table refused.
-- p_constraint, p_column, p_error: the diagnostics of the refusal; the first two are empty if it names none.
-- Locks: none. Errors: LW422, always.
create or replace function laneway.raise_invalid_setting(
  p_queue text, p_settings json, p_constraint text, p_column text, p_error text)
returns void
language plpgsql
set search_path = ''
as $$
declare
  v_setting text := regexp_replace(p_constraint, '^queue_(.*)_check$', '\1');
  v_unreadable record := laneway.find_unreadable_setting(p_settings);
  v_message text := case
    when p_column <> '' then format('setting "%s" must not be null', p_column)
    when p_constraint = 'retention_step_needs_retention' then 'setting "retention_step" needs a retention'
    when p_constraint <> '' then format('setting "%s" is invalid: %s', v_setting, p_settings ->> v_setting)
    when v_unreadable.setting is not null
      then format('setting "%s" is invalid: %s', v_unreadable.setting, p_settings ->> v_unreadable.setting)
    else p_error end;
  v_hint text := case p_constraint
    when 'queue_kind_check' then 'Use standard, unlogged or partitioned.'
    when 'queue_dedup_scope_check' then 'Use queue or partition.'
    when 'queue_max_attempts_check' then 'Give a number of 1 or more, or null for no limit.'
    when 'queue_max_bytes_check' then 'Give a number of 1 or more.'
    when 'queue_max_messages_check' then 'Give a number of 1 or more, or null for no limit.'
    when 'queue_max_receives_check' then 'Give a number of 1 or more, or null for no limit.'
    when 'queue_backoff_factor_check' then 'Give a number of 1 or more.'
    when 'queue_retention_step_check' then 'It must be positive, and in days or shorter units, because months differ.'
    when 'queue_backoff_check' then 'It must not be negative.'
    when 'queue_backoff_limit_check' then 'It must not be negative.'
    when 'queue_retention_check' then 'It must not be negative.'
    when 'retention_step_needs_retention' then 'Set both, or neither.'
    when '' then case v_unreadable.type
      when 'smallint' then 'Give a whole number of at most 32767.'
      when 'integer' then 'Give a whole number of at most 2147483647.'
      when 'double precision' then 'Give a number.'
      when 'boolean' then 'Give true or false.'
      when 'interval' then 'Give an interval, such as 30 seconds.'
      else 'Settings and their types are the columns of laneway.queue.' end
    else 'It must be positive.' end;
begin
  raise exception 'queue "%": %', p_queue, v_message
    using errcode = 'LW422', hint = v_hint;
end $$;
