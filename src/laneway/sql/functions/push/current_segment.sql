-- Return newest_segment as a function of its own: for expressions that seldom need the segment, where a subquery would
-- be prepared at every execution. Locks: none. Errors: none.
create or replace function laneway.current_segment(p_logged boolean) returns int
language plpgsql stable set search_path = '' set enable_seqscan = off as $$
begin
  return (select n.segment from laneway.newest_segment(p_logged) n);
end $$;
