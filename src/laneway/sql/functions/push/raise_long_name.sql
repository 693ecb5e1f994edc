-- Refuse a name that is too long for an index: an entry has at most 2704 bytes, after compression.
-- p_what: what has the name, for the error; p_bytes: how long the name is.
-- Locks: none. Errors: LW422.
create or replace function laneway.raise_long_name(p_what text, p_bytes int) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception '% is too long (% bytes): up to 1300 bytes always fit', p_what, p_bytes
    using errcode = 'LW422',
          hint = 'Use a hash of the name.';
end $$;
