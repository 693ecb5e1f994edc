-- Raise the error for a span that is too large to return. Locks: none. Errors: LW413, always.
create or replace function laneway.raise_large_result(p_bodies json[]) returns boolean
language plpgsql set search_path = '' as $$
begin
  raise exception '% messages take % bytes, too many for one claim',
    cardinality(p_bodies), pg_column_size(p_bodies)
    using errcode = 'LW413', hint = 'Claim fewer messages.';
end $$;
