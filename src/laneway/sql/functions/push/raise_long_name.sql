-- Refuses a name that no index can hold: its entries have 2704 bytes, once the name is compressed.
-- Locks: none. Errors: LW422.
create or replace function laneway.raise_long_name(p_what text, p_bytes int) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception '% is too long (% bytes): up to 1300 bytes always fit', p_what, p_bytes using errcode = 'LW422', hint = 'Take a hash of what is longer.';
end $$;
