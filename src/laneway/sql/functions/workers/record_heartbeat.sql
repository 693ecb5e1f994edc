-- Says that a worker lives, and how much it has done since it began. Answers its state and what it is asked to
-- become. Locks: the row. Errors: LW404 the worker is not known.
create or replace function laneway.record_heartbeat(p_worker_id text, p_handled bigint, p_failed bigint) returns table (state text, asked text)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
begin
  return query update laneway.worker w set heartbeat_at = clock_timestamp(), handled = p_handled, failed = p_failed
    where w.worker_id = p_worker_id returning w.state, w.asked;
  if not found then
    raise exception 'worker "%" does not exist', p_worker_id using errcode = 'LW404', hint = 'It was never registered, or it was purged.';
  end if;
end $$;
