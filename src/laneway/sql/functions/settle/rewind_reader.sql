-- Move the reader of an ordered group back to the first of some messages, so that these are delivered again, in order.
-- What was settled between there and the reader's position stays settled.
-- p_claim: the claim, with the seqs pending in all its parts; p_back: those to deliver again; p_dead: those that became
-- dead letters; p_not_before: the lane is delayed until then, null: it is not.
-- Return the other pending seqs behind the first of p_back, which are delivered again with it.
-- Called by return_messages, under its settings.
-- Locks: none of its own; the caller holds the reader's lock. Errors: none.
create or replace function laneway.rewind_reader(
  p_claim laneway.claim,
  p_back int8multirange,
  p_dead int8multirange,
  p_not_before timestamptz,
  p_now timestamptz)
returns int8multirange
language plpgsql as $$
declare
  v_first bigint := lower(p_back);
  v_behind int8multirange;
  v_returned int8multirange;       -- what leaves the claim
  v_progress record;
begin
  select p.place, p.seq, p.exceptions_until
    into v_progress
    from laneway.newest_progress(p_claim.reader_id) p;

  -- Gaps for what was settled, as far as there are none: it is neither pending nor to be delivered again.
  insert into laneway.gap (reader_id, first_seq, last_seq, gone)
  select p_claim.reader_id, s.seq, s.seq, false
    from unnest(
           int8multirange(int8range(v_first, greatest(v_first, v_progress.seq), '[]'))
           - p_claim.pending
           - coalesce(
               (select range_agg(int8range(g.first_seq, g.last_seq, '[]'))
                  from laneway.gap g
                 where g.reader_id = p_claim.reader_id
                   and g.last_seq >= v_first),
               '{}')) r (span)
   cross join lateral generate_series(lower(r.span), upper(r.span) - 1) s (seq);
  insert into laneway.gap (reader_id, first_seq, last_seq, gone)
  select p_claim.reader_id, s.seq, s.seq, false
    from unnest(p_dead * int8multirange(int8range(v_first, null, '()'))) r (span)
   cross join lateral generate_series(lower(r.span), upper(r.span) - 1) s (seq)
  on conflict do nothing;

  -- No gaps for what is delivered again.
  v_behind := p_claim.pending * int8multirange(int8range(v_first, null)) - p_back - p_dead;
  v_returned := p_back + p_dead + v_behind;
  delete from laneway.gap g
   using unnest(v_returned) r (span)
   where g.reader_id = p_claim.reader_id
     and g.first_seq >= lower(r.span)
     and g.first_seq < upper(r.span)
     and not g.gone
     and not p_dead @> g.first_seq;

  insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
  values (
    p_claim.reader_id, p_claim.segment, v_first - 1, greatest(v_progress.exceptions_until, v_progress.seq),
    case when not isempty(p_claim.pending - v_returned) then p_claim.token end, p_not_before, p_now);
  delete from laneway.progress where ctid = v_progress.place;
  update laneway.reader
     set ready = true
   where reader_id = p_claim.reader_id
     and ready is distinct from true; -- phrased so that no partial index matches
  return v_behind;
end $$;
