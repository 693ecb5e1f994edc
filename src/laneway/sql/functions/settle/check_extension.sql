-- Refuse the durations of an extension that are negative or longer than 1000 years. Locks: none. Errors: LW422.
create or replace function laneway.check_extension(p_durations interval[]) returns void
language plpgsql immutable
set search_path = ''
as $$
begin
  if interval '0' > any (p_durations) then
    raise exception 'lease duration must not be negative'
      using errcode = 'LW422',
            hint = 'Zero ends the lease.';
  end if;
  if laneway.exceeds_interval_limit(p_durations) then
    perform laneway.raise_long_interval(p_durations);
  end if;
end $$;
