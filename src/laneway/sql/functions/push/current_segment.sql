-- The segment that is being written, of logged or of UNLOGGED queues. Locks: none. Errors: none.
create or replace function laneway.current_segment(p_logged boolean) returns int
language plpgsql stable set search_path = '' set enable_seqscan = off as $$
begin
  return (select s.segment from laneway.segment s
           where s.opened_at is not null and s.segment % 2 = case when p_logged then 0 else 1 end
           order by s.segment desc limit 1);
end $$;
