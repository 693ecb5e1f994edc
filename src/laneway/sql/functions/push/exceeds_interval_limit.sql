-- Whether one of these leases or delays is more than 1000 years, either way: a moment so far from now is none that PostgreSQL
-- or Python can hold, and whoever reckons with it would fail. Locks: none. Errors: none.
create or replace function laneway.exceeds_interval_limit(p_times interval[]) returns boolean
language sql immutable parallel safe
return interval '365250 days' < any (p_times) or interval '-365250 days' > any (p_times);
