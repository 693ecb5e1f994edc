-- Return the names that traces were recorded under, the latest used first, with the number of traces and of messages of
-- each, and the total number of names. Locks: none. Errors: none.
create or replace function laneway.list_trace_names(p_limit int default 100, p_offset int default 0)
returns table (name text, traces bigint, messages bigint, last_at timestamptz, total bigint)
language sql stable
set search_path = ''
as $$
  select n.name, count(*), count(distinct (t.lane_id, t.key)), max(t.at), count(*) over ()
    from laneway.stream_trace t
    cross join lateral unnest(t.names) n (name)
   group by n.name
   order by max(t.at) desc, n.name
   limit greatest(p_limit, 0) offset greatest(p_offset, 0);
$$;
