-- Return how long a message is delayed after its attempt p_attempt failed: p_base × p_factor ^ (p_attempt - 1), at most
-- p_limit or, if that is longer, p_base. Growing delays vary at random by a tenth, so that messages that failed at once
-- are not retried together. The terms are limited so that the power does not overflow. Locks: none. Errors: none.
create or replace function laneway.backoff_delay(p_base interval, p_factor float8, p_limit interval, p_attempt int)
returns interval
language sql volatile parallel restricted
return least(
  greatest(p_limit, p_base),
  case
    when p_base = interval '0' then interval '0'
    else make_interval(secs => least(
           extract(epoch from p_base)
           * least(p_factor, 1e100)
             ^ least(
                 greatest(p_attempt - 1, 0),
                 64,
                 floor(290 / log(least(greatest(p_factor, 10), 1e100)))),
           1e9))
  end)
  * case when p_factor > 1 then 0.9 + 0.2 * random() else 1 end;
