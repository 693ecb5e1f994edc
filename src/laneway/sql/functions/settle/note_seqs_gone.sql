-- Record as gaps that messages of a reader are gone: nothing else accounts for them any more.
-- Locks: none of its own; the caller removed the messages and holds the reader's lock. Errors: none.
create or replace function laneway.note_seqs_gone(p_reader_id int, p_seqs int8multirange) returns void
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_rest int8multirange;      -- that are not gaps yet
begin
  v_rest := p_seqs * (
    select int8multirange(int8range(l.base + 1, null))
      from laneway.reader r
      join laneway.lane l on l.lane_id = r.lane_id
     where r.reader_id = p_reader_id);
  if v_rest is null or isempty(v_rest) then
    return;
  end if;
  update laneway.gap g
     set gone = true
   where g.reader_id = p_reader_id
     and not g.gone
     and g.first_seq >= lower(v_rest)
     and g.first_seq < coalesce(upper(v_rest), 9223372036854775807)
     and v_rest @> g.first_seq;
  v_rest := v_rest - coalesce(
    (select range_agg(int8range(g.first_seq, g.last_seq, '[]'))
       from laneway.gap g
      where g.reader_id = p_reader_id
        and g.last_seq >= lower(v_rest)
        and g.first_seq < coalesce(upper(v_rest), 9223372036854775807)),
    '{}');
  insert into laneway.gap (reader_id, first_seq, last_seq, gone)
  select p_reader_id, lower(r.span), upper(r.span) - 1, true
    from unnest(v_rest) r (span);
end $$;
