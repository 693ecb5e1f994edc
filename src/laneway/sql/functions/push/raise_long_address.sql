-- Refuse a message whose partition and dedup key are too long for an index entry. Locks: none. Errors: LW422.
create or replace function laneway.raise_long_address(p_queue text, p_partition text, p_key text) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception
    'partition or dedup key of a message for queue "%" is too long (% and % bytes): up to 1300 bytes each always fit',
    p_queue, coalesce(octet_length(p_partition), 0), coalesce(octet_length(p_key), 0)
    using errcode = 'LW422',
          hint = 'Use a hash of the longer one.';
end $$;
