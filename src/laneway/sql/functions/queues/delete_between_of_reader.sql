-- Delete the messages of one reader that were pushed from p_from to p_to, both included, whatever their state: one
-- lane's part of delete_between. Return how many. The caller has the reader's lock.
-- Locks: the rows of the reader's claims, in order of token; the lane's advisory lock, not waiting for it. Errors:
-- none.
create or replace function laneway.delete_between_of_reader(
  p_reader_id int, p_lane_id int, p_logged boolean, p_from timestamptz, p_to timestamptz)
returns bigint
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_first bigint;
  v_last bigint;
  v_in_log int8multirange;    -- seqs that the log has, or had, in the range of time
  v_all int8multirange;       -- and copies of messages that have left the log
  v_removed int8multirange;   -- exceptions that were deleted: archived, dead, parked and claimed messages
  v_gone int8multirange;
  v_progress bigint;
  v_ahead int8multirange;
  v_claim record;
  v_deleted bigint;
begin
  -- Which seqs: the log's by time, and copies by their own time. Nothing is later than the last timestamp there is.
  v_first := laneway.seq_before(p_lane_id, p_logged, p_from);
  v_last := laneway.seq_before(
    p_lane_id, p_logged, least(p_to, '294276-12-31 23:59:59.999998+00') + interval '1 microsecond');
  v_in_log := int8multirange(int8range(v_first + 1, greatest(v_first, v_last) + 1));
  v_all := v_in_log + coalesce(
    (select range_agg(int8range(v.seq, v.seq, '[]'))
       from laneway.revision v
      where v.reader_id = p_reader_id
        and v.created_at between p_from and p_to),
    '{}');

  -- Delete the exceptions among them. A concurrent claim or nack moves messages between dead letters, parked messages
  -- and claims: repeat until none has any.
  with removed as (
    delete from laneway.archive
     where reader_id = p_reader_id
       and created_at between p_from and p_to
    returning seq)
  select coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_removed
    from removed t;
  loop
    with removed as (
      delete from laneway.dead_letter
       where reader_id = p_reader_id
         and created_at between p_from and p_to
      returning seq)
    select v_removed + coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_removed
      from removed t;
    v_all := v_all + v_removed;
    exit when isempty(v_all);

    with removed as (
      delete from laneway.parked
       where reader_id = p_reader_id
         and v_all @> seq
      returning seq)
    select v_removed + coalesce(range_agg(int8range(t.seq, t.seq, '[]')), '{}') into v_removed
      from removed t;

    perform from laneway.claim c
      where c.reader_id = p_reader_id
        and c.pending && v_all
      order by c.token, c.part
        for update;
    with removed as (
      delete from laneway.claim
       where reader_id = p_reader_id
         and pending <@ v_all
      returning pending)
    select v_removed + coalesce(range_agg(t.pending), '{}') into v_removed
      from removed t;
    for v_claim in
      select c.token, c.lane_id, c.part, c.pending * v_all as hit
        from laneway.claim c
       where c.reader_id = p_reader_id
         and c.pending && v_all
    loop
      update laneway.claim
         set pending = pending - v_all
       where token = v_claim.token
         and lane_id = v_claim.lane_id
         and part = v_claim.part;
      v_removed := v_removed + v_claim.hit;
    end loop;

    exit when not exists (select from laneway.parked k where k.reader_id = p_reader_id and v_all @> k.seq)
          and not exists (select from laneway.claim c where c.reader_id = p_reader_id and c.pending && v_all)
          and not exists (
            select from laneway.dead_letter d
             where d.reader_id = p_reader_id
               and d.created_at between p_from and p_to);
  end loop;
  if isempty(v_all) then
    return 0;
  end if;
  delete from laneway.revision where reader_id = p_reader_id and v_all @> seq;
  delete from laneway.retry where reader_id = p_reader_id and v_all @> seq;

  -- Count: what was not gone from the log before, and exceptions that the log no longer had.
  v_gone := coalesce(
    (select range_agg(int8range(g.first_seq, g.last_seq, '[]'))
       from laneway.gap g
      where g.reader_id = p_reader_id
        and g.gone),
    '{}');
  v_deleted := laneway.count_seqs(v_in_log - v_gone) + laneway.count_seqs(v_removed - v_in_log);

  -- Record them as gaps, before and after the reader's position apart: a reader does not see a gap that lies across it.
  v_progress := laneway.reader_seq(p_reader_id);
  perform laneway.note_seqs_gone(p_reader_id, v_all * int8multirange(int8range(null, v_progress, '(]')));
  v_ahead := v_all * int8multirange(int8range(v_progress + 1, null));
  if not isempty(v_ahead) then
    perform laneway.note_seqs_gone(p_reader_id, v_ahead);
    perform laneway.note_exceptions_ahead(p_reader_id, upper(v_ahead) - 1);
    perform laneway.mark_reader_idle(p_reader_id, p_lane_id);
  end if;
  return v_deleted;
end $$;
