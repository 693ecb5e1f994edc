-- How long a message waits after its attempt p_attempt failed. Locks: none. Errors: none.
create or replace function laneway.backoff(p_base interval, p_factor float8, p_limit interval, p_attempt int) returns interval
language sql immutable parallel safe
return least(p_limit, case when p_base = interval '0' then interval '0'
  else make_interval(secs => least(extract(epoch from p_base) * p_factor ^ least(greatest(p_attempt - 1, 0), 64), 1e9)) end);
