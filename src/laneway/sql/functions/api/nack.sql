-- Gives a message in hand back: it comes again after p_delay (null: the queue's backoff) or, out of attempts,
-- becomes a dead letter. p_dead: true, at once; false, it comes again however often it failed. Answers 'requeued', 'dead', or 'lost' where the token no longer holds it.
-- Locks: as nack_many. Errors: LW422 not an id, or a delay of more than 1000 years.
create or replace function laneway.nack(p_id text, p_token uuid, p_reason text default null, p_delay interval default null, p_dead boolean default null) returns text
language sql set search_path = '' as $$
  select n.outcome from laneway.parse_id(p_id) i
    cross join lateral laneway.nack_many(array[p_token], array[i.lane_id], array[i.seq], array[p_reason], array[p_delay], array[p_dead]) n;
$$;
