-- Ack a leased message. Return false, and change nothing, if the token's lease has ended.
-- Locks: as ack_many. Errors: LW422 not a message id.
create or replace function laneway.ack(p_id text, p_token uuid) returns boolean
language sql
set search_path = ''
as $$
  select not exists (
    select
      from laneway.parse_id(p_id) i
      cross join lateral laneway.ack_many(array[p_token], array[i.lane_id], array[i.seq], array[i.seq]));
$$;
