-- End the parts of one claim whose lease has ended, as expire_claims does. Return the number of messages.
-- Locks: those of return_messages. Errors: none.
create or replace function laneway.expire_claim(p_token uuid) returns int
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_part record;
  v_count int := 0;
begin
  for v_part in
    select c.lane_id, c.part, c.pending
      from laneway.claim c
     where c.token = p_token
       and (c.until <= clock_timestamp()) is true
  loop
    v_count := v_count + (
      select count(*)
        from laneway.return_messages(
               p_token, v_part.lane_id, v_part.part, v_part.pending, 'retry', null, null, null, 'expired'));
  end loop;
  return v_count;
end $$;
