-- Move a reader to a position in its lane: the next message it reads is the one after p_seq. Its claims, parked
-- messages and retries are deleted; dead letters and archived messages stay what they are. The caller has the reader's
-- lock.
-- Locks: the rows of its dead letters. Errors: none.
create or replace function laneway.reposition_reader(p_reader_id int, p_lane_id int, p_seq bigint, p_logged boolean)
returns void
language plpgsql
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_seq bigint := p_seq;
  v_segment int;
begin
  -- A position is never inside a gap.
  v_seq := coalesce(
    (select g.last_seq
       from laneway.gap g
      where g.reader_id = p_reader_id
        and g.gone
        and g.first_seq <= v_seq
        and g.last_seq > v_seq),
    v_seq);
  v_segment := laneway.segment_after(p_lane_id, v_seq, p_logged);

  -- Delete what the reader's old position brought with it. A redrive in progress parks its dead letter: wait for it
  -- first.
  perform from laneway.dead_letter d where d.reader_id = p_reader_id for update;
  perform laneway.clear_reader_state(array[p_reader_id]);
  delete from laneway.retry where reader_id = p_reader_id;
  delete from laneway.revision where reader_id = p_reader_id;
  delete from laneway.gap where reader_id = p_reader_id and not gone;

  -- Skip dead letters and archived messages ahead.
  insert into laneway.gap (reader_id, first_seq, last_seq, gone)
  select d.reader_id, d.seq, d.seq, false
    from (select d.reader_id, d.seq from laneway.dead_letter d where d.reader_id = p_reader_id and d.seq > v_seq
          union all
          select a.reader_id, a.seq from laneway.archive a where a.reader_id = p_reader_id and a.seq > v_seq) d
      on conflict do nothing;

  delete from laneway.progress where reader_id = p_reader_id;
  insert into laneway.progress (reader_id, segment, seq, exceptions_until, not_before, moved_at)
  values (p_reader_id, v_segment, v_seq,
          coalesce((select max(g.last_seq) from laneway.gap g where g.reader_id = p_reader_id), 0),
          laneway.rest_window_end(p_lane_id), clock_timestamp());
  update laneway.reader
     set ready = true
   where reader_id = p_reader_id
     and ready is distinct from true; -- in this form it does not match a partial index, so the primary key is used
end $$;
