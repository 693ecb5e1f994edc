-- Return how many messages the waiters of a claim want in total. Refuse numbers and lease durations out of range.
-- p_wants: messages per waiter, 0 to 10,000 each, 50,000 in total. p_leases: lease durations, null, or with null
-- elements.
-- Locks: none. Errors: LW422 a number or lease duration is out of range.
create or replace function laneway.check_claim(p_wants int[], p_leases interval[]) returns int
language plpgsql immutable
set search_path = ''
as $$
declare
  v_total bigint := 0;
  v_want int;
begin
  foreach v_want in array coalesce(p_wants, '{}') loop
    if v_want > 10000 then
      raise exception 'too many messages requested: % (10,000 at most)', v_want
        using errcode = 'LW422', hint = 'Request 0 to 10,000 messages for each waiter.';
    end if;
    if v_want is null or v_want < 0 then
      raise exception 'invalid number of messages requested: %', coalesce(v_want::text, 'null')
        using errcode = 'LW422', hint = 'Request 0 to 10,000 messages for each waiter.';
    end if;
    v_total := v_total + v_want;
  end loop;
  if v_total > 50000 then
    raise exception 'too many messages requested in one call: % (50,000 at most)', v_total
      using errcode = 'LW422', hint = 'Request fewer messages, or split the request into several calls.';
  end if;
  if p_leases is not null then
    if interval '0' >= any (p_leases) then
      raise exception 'lease must be positive'
        using errcode = 'LW422', hint = 'Give a lease duration above zero, or null for the queue''s own.';
    end if;
    if laneway.exceeds_interval_limit(p_leases) then
      perform laneway.raise_long_interval(p_leases);
    end if;
  end if;
  return v_total;
end $$;
