-- Return the segment that is being written, of logged or of unlogged queues.
-- PostgreSQL inlines this function (see newest_progress). Call it as (select n.segment from
-- laneway.newest_segment(true) n).
-- Locks: none; a push calls it under its lanes' locks. Errors: none.
create or replace function laneway.newest_segment(p_logged boolean)
returns table (segment int)
language sql stable rows 1
as $$
  select s.segment
    from laneway.segment s
   where s.opened_at is not null
     and s.segment % 2 = case when p_logged then 0 else 1 end
   order by s.segment desc
   limit 1
$$;
