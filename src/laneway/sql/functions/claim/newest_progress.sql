-- Return how far a reader has claimed: the newest of its progress rows, and where that row is.
-- PostgreSQL inlines this function into the calling statement, so it costs what the lateral subquery would. That needs
-- language sql, `stable`, and no `set` clause. Call it in the from clause: cross join lateral
-- laneway.newest_progress(…) p.
-- Locks: none; call it under the reader's lock to keep the answer true. Errors: none.
create or replace function laneway.newest_progress(p_reader_id int)
returns table (
  place tid,
  step bigint,
  segment int,
  seq bigint,
  exceptions_until bigint,
  token uuid,
  not_before timestamptz,
  moved_at timestamptz)
language sql stable rows 1 as $$
  select p.ctid, p.step, p.segment, p.seq, p.exceptions_until, p.token, p.not_before, p.moved_at
    from laneway.progress p
   where p.reader_id = p_reader_id
   order by p.step desc
   limit 1
$$;
