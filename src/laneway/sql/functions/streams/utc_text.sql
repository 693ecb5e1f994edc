-- Return a time as text in UTC with microseconds, always as long, so that such texts sort as the times do.
-- Locks: none. Errors: none.
create or replace function laneway.utc_text(p_time timestamptz) returns text
language sql stable parallel safe
return to_char(p_time at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"');
