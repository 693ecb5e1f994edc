-- Return the result of a message's handler, if it is stored and has not expired. Locks: none. Errors: none.
create or replace function laneway.find_result(p_lane_id int, p_seq bigint)
returns table (result json, finished_at timestamptz)
language sql stable set search_path = '' as $$
  select r.result, r.finished_at
    from laneway.result r
   where r.lane_id = p_lane_id
     and r.seq = p_seq
     and r.expires_at > clock_timestamp();
$$;
