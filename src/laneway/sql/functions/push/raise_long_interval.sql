-- Refuses what is exceeds_interval_limit, naming the first. Locks: none. Errors: LW422.
create or replace function laneway.raise_long_interval(p_times interval[]) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception 'a lease or delay cannot be %: at most 1000 years', (select t.t from unnest(p_times) with ordinality t (t, n) where laneway.exceeds_interval_limit(array[t.t]) order by t.n limit 1)
    using errcode = 'LW422', hint = 'That is 365250 days.';
end $$;
