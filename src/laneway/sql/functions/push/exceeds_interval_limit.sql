-- Return whether one of these leases or delays is longer than 1000 years, in either direction. Neither PostgreSQL nor
-- Python can represent times much further from now.
-- Locks: none. Errors: none.
create or replace function laneway.exceeds_interval_limit(p_times interval[]) returns boolean
language sql immutable parallel safe
return interval '365250 days' < any (p_times)
    or interval '-365250 days' > any (p_times);
