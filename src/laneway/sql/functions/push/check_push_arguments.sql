-- Refuse arguments of a push that do not fit together or are out of range. They are those of push_many.
-- p_count: how many bodies there are, at least 1.
-- Called by push_mixed, under its settings.
-- Locks: none. Errors: LW422.
create or replace function laneway.check_push_arguments(
  p_count int,
  p_queues int[],
  p_bodies json[],
  p_partitions text[],
  p_priorities smallint[],
  p_delays interval[],
  p_keys text[],
  p_headers json[],
  p_leases interval[],
  p_max_attempts smallint[],
  p_guards smallint[])
returns void
language plpgsql as $$
begin
  if coalesce(cardinality(p_queues), 0) not in (1, p_count)
     or coalesce(cardinality(p_partitions), 1) not in (1, p_count)
     or coalesce(cardinality(p_priorities), 1) not in (1, p_count)
     or coalesce(cardinality(p_delays), 1) not in (1, p_count)
     or coalesce(cardinality(p_keys), 1) not in (1, p_count)
     or coalesce(cardinality(p_headers), 1) not in (1, p_count)
     or coalesce(cardinality(p_leases), 1) not in (1, p_count)
     or coalesce(cardinality(p_max_attempts), 1) not in (1, p_count)
     or coalesce(cardinality(p_guards), 1) not in (1, p_count) then
    raise exception 'arrays differ in length: each needs one element, or one per body (%)', p_count
      using errcode = 'LW422';
  end if;
  if pg_catalog.num_nulls(variadic p_bodies) > 0 then
    raise exception 'message without a body'
      using errcode = 'LW422',
            hint = 'For JSON null, pass ''null''.';
  end if;
  if interval '0' >= any (p_leases) then
    raise exception 'lease must be positive' using errcode = 'LW422';
  end if;
  if 1 > any (p_max_attempts) then
    raise exception 'max_attempts must be at least 1' using errcode = 'LW422';
  end if;
  if laneway.exceeds_interval_limit(p_leases) or laneway.exceeds_interval_limit(p_delays) then
    perform laneway.raise_long_interval(p_leases || p_delays);
  end if;
end $$;
