-- Return the events of one message that name its lane. One index finds those of up to 10,000 seqs, which are nearly
-- all; the longer ones have another.
-- PostgreSQL inlines this function (see newest_progress). Locks: none. Errors: none.
create or replace function laneway.events_of_message(p_lane_id int, p_seq bigint) returns setof laneway.event
language sql stable as $$
  select w.*
    from laneway.event w
   where w.lane_id = p_lane_id
     and w.first_seq between greatest(p_seq, 0) - 10000 and p_seq
     and w.last_seq >= p_seq
  union all
  select w.*
    from laneway.event w
   where w.lane_id = p_lane_id
     and w.last_seq - w.first_seq >= 10000
     and w.first_seq < greatest(p_seq, 0) - 10000
     and w.last_seq >= p_seq
$$;
