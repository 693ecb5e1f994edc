-- Make a shared group's messages ready that are delayed, or wait for a retry, until p_until at most. Return how many.
-- Messages that no claim has met yet keep their delay.
-- Locks: the rows of parked messages, skipping locked ones. Errors: none.
create or replace function laneway.hasten(p_group_id int, p_until timestamptz) returns int
language sql
set search_path = ''
as $$
  with hastened as (
    update laneway.parked k
       set available_at = clock_timestamp()
     where (k.reader_id, k.seq) in (
       select o.reader_id, o.seq
         from laneway.parked o
        where o.group_id = p_group_id
          and o.available_at > clock_timestamp()
          and o.available_at <= p_until
          for update skip locked)
    returning 1)
  select count(*)::int from hastened;
$$;
