-- Commit the offset of an ordered group in one lane: ack everything that its claim has pending up to and including
-- p_upto (null: nothing), but dead-letter p_dead, with p_dead_reasons.
-- Then end the claim if p_failed is not null: nack that message with p_reason or, if p_counted is false, return it
-- without counting the attempt; and release all other messages of the claim. If the nacked message is to wait for the
-- queue's backoff, so are they.
-- Return how many messages were acked, and what became of p_failed: 'requeued' or 'dead'.
-- Called by settle_stream, which holds the locks of the reader and of the claim, and knows that p_failed and p_dead are
-- pending.
-- Locks: none of its own. Errors: none.
create or replace function laneway.commit_offset(
  p_token uuid,
  p_lane_id int,
  p_upto bigint,
  p_dead bigint[],
  p_dead_reasons text[],
  p_failed bigint,
  p_counted boolean,
  p_reason text,
  out acked bigint,
  out outcome text)
language plpgsql
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_claim record;
  v_delay interval;
  v_left bigint[];
begin
  if p_dead <> '{}' then
    perform laneway.nack_many(
      array_fill(p_token, array[cardinality(p_dead)]), array_fill(p_lane_id, array[cardinality(p_dead)]), p_dead,
      p_dead_reasons, null, array_fill(true, array[cardinality(p_dead)]));
  end if;
  select min(c.reader_id) as reader_id,
         coalesce(range_agg(c.pending), '{}') * int8multirange(int8range(null, p_upto, '[]')) as committed
    into v_claim
    from laneway.claim c
   where c.token = p_token
     and c.lane_id = p_lane_id;
  acked := 0;
  if p_upto is not null and not isempty(v_claim.committed) then
    acked := laneway.count_seqs(v_claim.committed);
    perform laneway.ack_parts(array[p_token], array[p_lane_id], array[lower(v_claim.committed)], array[p_upto]);
  end if;

  if p_failed is not null then
    outcome := 'requeued';
    if p_counted then
      outcome := (
        select n.outcome
          from laneway.nack_many(array[p_token], array[p_lane_id], array[p_failed], array[p_reason]) n);
      v_delay := (
        select p.not_before - clock_timestamp()
          from laneway.newest_progress(v_claim.reader_id) p
         where p.not_before > clock_timestamp());
    end if;
    v_left := array(
      select s.seq
        from laneway.claim c
       cross join lateral unnest(c.pending) r (span)
       cross join lateral generate_series(lower(r.span), upper(r.span) - 1) s (seq)
       where c.token = p_token
         and c.lane_id = p_lane_id);
    if v_left <> '{}' then
      perform laneway.release_many(
        array_fill(p_token, array[cardinality(v_left)]), array_fill(p_lane_id, array[cardinality(v_left)]), v_left,
        v_delay);
    end if;
  end if;
end $$;
