-- Nack a leased message: it is delivered again after p_delay (null: the queue's backoff) or, out of attempts, becomes a
-- dead letter. p_dead: true makes it a dead letter at once; false has it delivered again regardless of its attempts.
-- Return 'requeued', 'dead', or 'lost' if the token's lease has ended.
-- Locks: as nack_many. Errors: LW422 not a message id, or a delay of over 1000 years.
create or replace function laneway.nack(
  p_id text, p_token uuid, p_reason text default null, p_delay interval default null, p_dead boolean default null)
returns text
language sql
set search_path = ''
as $$
  select n.outcome
    from laneway.parse_id(p_id) i
    cross join lateral laneway.nack_many(
      array[p_token], array[i.lane_id], array[i.seq], array[p_reason], array[p_delay], array[p_dead]) n;
$$;
