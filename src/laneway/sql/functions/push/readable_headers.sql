-- Return headers so that PostgreSQL's JSON functions can read them. They refuse a text with an escaped null character,
-- which is valid JSON: such characters become U+FFFD, everything else stays as it is.
-- Locks: none. Errors: none.
create or replace function laneway.readable_headers(p_headers json) returns json
language sql immutable parallel safe
return case
         when position('\u0000' in p_headers::text) > 0
         then replace(p_headers::text, '\u0000', '\ufffd')::json
         else p_headers
       end;
