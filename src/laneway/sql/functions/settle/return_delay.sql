-- Return how long returned messages are delayed: p_delay if given, else not at all if they are released (p_fate), else
-- the queue's backoff for p_attempt. PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.return_delay(
  p_fate text,
  p_delay interval,
  p_base interval,
  p_factor float8,
  p_limit interval,
  p_attempt int)
returns interval
language sql volatile as $$
  select coalesce(
    p_delay,
    case when p_fate = 'release' then interval '0' else laneway.backoff_delay(p_base, p_factor, p_limit, p_attempt) end)
$$;
