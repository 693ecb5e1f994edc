-- Return the signature of a failure's reason: the reason without what differs between failures of the same kind. URLs
-- become <url>, e-mail addresses <email>, UUIDs and long hexadecimal texts <id>, IP addresses <address>, quoted texts
-- <text>, paths <path> and numbers <n>. Only the first line of a reason counts, and of it the first 300 characters.
-- Locks: none. Errors: none.
create or replace function laneway.failure_signature(p_reason text) returns text
language sql immutable parallel safe
set search_path = ''
as $$
  select left(
    regexp_replace(
      regexp_replace(
        regexp_replace(
          regexp_replace(
            regexp_replace(
              regexp_replace(
                regexp_replace(
                  split_part(ltrim(coalesce(p_reason, '')), e'\n', 1),
                  '\m[a-z][a-z0-9+.-]*://[^\s"''<>]+', '<url>', 'gi'),
                '[^\s"''<>@]+@[^\s"''<>@]+\.[a-z]+', '<email>', 'gi'),
              '\m([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|0x[0-9a-f]+|(?=[0-9a-f]*[0-9])[0-9a-f]{12,})\M', '<id>',
              'gi'),
            '"[^"]*"|''[^'']*''', '<text>', 'g'),
          '\m\d{1,3}(\.\d{1,3}){3}(:\d+)?\M', '<address>', 'g'),
        '(?<![\w<])(\.{0,2}/[\w.@~-]+)+/?', '<path>', 'g'),
      '(?<![a-z_])[+-]?\d+(\.\d+)?', '<n>', 'gi'),
    300)
$$;
