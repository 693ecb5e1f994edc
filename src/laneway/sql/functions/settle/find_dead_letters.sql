-- Return the addresses of a group's dead letters that match every condition that is not null, oldest failure first.
-- p_until: only those that died until then, so that a caller who repeats the call meets no message twice.
-- p_signature: that of failure_signature. p_search: what the reason or the body contains, in any case.
-- Locks: none. Errors: none.
create or replace function laneway.find_dead_letters(
  p_group_id int, p_limit int, p_until timestamptz default null, p_since timestamptz default null,
  p_signature text default null, p_partition text default null, p_search text default null)
returns table (segment int, lane_id int, seq bigint)
language sql stable
set search_path = ''
as $$
  select d.segment, d.lane_id, d.seq
    from laneway.dead_letter d
   where d.group_id = p_group_id
     and (p_until is null or d.died_at <= p_until)
     and (p_since is null or d.died_at >= p_since)
     and (p_partition is null or d.partition = p_partition)
     and (p_signature is null or laneway.failure_signature(d.reason) = p_signature)
     and (p_search is null
          or strpos(lower(d.reason), lower(p_search)) > 0
          or strpos(lower(d.body::text), lower(p_search)) > 0)
   order by d.died_at, d.seq, d.lane_id
   limit p_limit
$$;
