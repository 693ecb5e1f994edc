-- Headers as the JSON functions can read them: they refuse a text with an escaped null character anywhere, which is
-- legal in JSON. Such characters come out as U+FFFD; all else stays as it is. Locks: none. Errors: none.
create or replace function laneway.readable_headers(p_headers json) returns json
language sql immutable parallel safe
return case when position('\u0000' in p_headers::text) > 0 then replace(p_headers::text, '\u0000', '\ufffd')::json else p_headers end;
