-- Move the reader of an ordered group back to the first of some messages, so that these are delivered again, in order.
-- What was settled between there and the reader's position stays settled.
-- p_claim: the claim, with the seqs pending in all its parts; p_back: those to deliver again; p_dead: those that became
-- dead letters; p_not_before: the lane is delayed until then, null: it is not.
-- p_alone: the other messages stay leased; p_claim may then be one part of the claim. The reader skips them until they
-- are returned too, and claims nothing behind them while they are leased (claim_past_exceptions).
-- Return the other pending seqs behind the first of p_back, which are delivered again with it; none with p_alone.
-- Called by return_messages, under its settings.
-- Locks: none of its own; the caller holds the reader's lock. Errors: none.
create or replace function laneway.rewind_reader(
  p_claim laneway.claim,
  p_back int8multirange,
  p_dead int8multirange,
  p_alone boolean,
  p_not_before timestamptz,
  p_now timestamptz)
returns int8multirange
language plpgsql as $$
declare
  v_first bigint := lower(p_back);
  v_behind int8multirange := '{}';
  v_returned int8multirange;       -- what leaves the claim
  v_leased int8multirange;         -- what stays in it
  v_progress record;
begin
  select p.place, p.segment, p.seq, p.exceptions_until, p.token, p.not_before
    into v_progress
    from laneway.newest_progress(p_claim.reader_id) p;

  -- Gaps for what was settled, as far as there are none: it is neither pending nor to be delivered again. With p_alone,
  -- also for what stays leased.
  insert into laneway.gap (reader_id, first_seq, last_seq, gone)
  select p_claim.reader_id, s.seq, s.seq, false
    from unnest(
           int8multirange(int8range(v_first, greatest(v_first, v_progress.seq), '[]'))
           - case when p_alone then p_back else p_claim.pending end
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
  if not p_alone then
    v_behind := p_claim.pending * int8multirange(int8range(v_first, null)) - p_back - p_dead;
  end if;
  v_returned := p_back + p_dead + v_behind;
  delete from laneway.gap g
   using unnest(v_returned) r (span)
   where g.reader_id = p_claim.reader_id
     and g.first_seq >= lower(r.span)
     and g.first_seq < upper(r.span)
     and not g.gone
     and not p_dead @> g.first_seq;

  if v_first > v_progress.seq then
    -- The reader was moved back further before.
    insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
    values (
      p_claim.reader_id, v_progress.segment, v_progress.seq, v_progress.exceptions_until, v_progress.token,
      greatest(v_progress.not_before, p_not_before), p_now);
  else
    v_leased := case when p_alone then (select range_agg(c.pending) from laneway.claim c where c.token = p_claim.token)
                     else p_claim.pending end - v_returned;
    insert into laneway.progress (reader_id, segment, seq, exceptions_until, token, not_before, moved_at)
    values (
      p_claim.reader_id, p_claim.segment, v_first - 1, greatest(v_progress.exceptions_until, v_progress.seq),
      case when lower(v_leased) < v_first then p_claim.token end,
      case when p_alone then greatest(v_progress.not_before, p_not_before) else p_not_before end, p_now);
  end if;
  delete from laneway.progress where ctid = v_progress.place;
  update laneway.reader
     set ready = true
   where reader_id = p_claim.reader_id
     and ready is distinct from true; -- phrased so that no partial index matches
  return v_behind;
end $$;
