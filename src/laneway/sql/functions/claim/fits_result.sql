-- Return true for a claimed span that is one message, or whose bodies take at most 32 MiB. The engine filters what a
-- claim returns by it, so that a claim that is too large is undone, and repeated for fewer messages.
-- PostgreSQL inlines this function (see newest_progress).
-- Locks: none. Errors: LW413 the bodies take more.
create or replace function laneway.fits_result(p_bodies json[]) returns boolean
language sql volatile as $$
  select case
    when pg_catalog.pg_column_size(p_bodies) > 33554432 and pg_catalog.cardinality(p_bodies) > 1
    then laneway.raise_large_result(p_bodies)
    else true end
$$;
