-- Refuses what is too_long, naming the first. Locks: none. Errors: LW422.
create or replace function laneway.refuse_times(p_times interval[]) returns void
language plpgsql set search_path = '' as $$
begin
  raise exception 'a lease or delay cannot be %: at most 1000 years', (select t.t from unnest(p_times) with ordinality t (t, n) where laneway.too_long(array[t.t]) order by t.n limit 1)
    using errcode = 'LW422', hint = 'That is 365250 days.';
end $$;
