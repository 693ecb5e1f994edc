-- Refuse the first of some leases or delays that is longer than 1000 years; see exceeds_interval_limit.
-- Locks: none. Errors: LW422.
create or replace function laneway.raise_long_interval(p_times interval[]) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception 'lease or delay too long: %, at most 1000 years',
    (select t.time
       from unnest(p_times) with ordinality t (time, n)
      where laneway.exceeds_interval_limit(array[t.time])
      order by t.n
      limit 1)
    using errcode = 'LW422',
          hint = 'That is 365250 days.';
end $$;
