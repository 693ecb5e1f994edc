-- Record that a lane's messages are kept only after p_seq (the lane's base), and delete what refers to earlier ones:
-- gaps, retries, and copies of settled messages.
-- Locks: the lane's row. Errors: none.
create or replace function laneway.advance_lane_base(p_lane_id int, p_seq bigint) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
begin
  update laneway.lane
     set base = p_seq
   where lane_id = p_lane_id
     and base < p_seq;

  delete from laneway.gap g
   using laneway.reader r
   where r.lane_id = p_lane_id
     and g.reader_id = r.reader_id
     and g.last_seq <= p_seq;
  update laneway.gap g
     set first_seq = p_seq + 1
    from laneway.reader r
   where r.lane_id = p_lane_id
     and g.reader_id = r.reader_id
     and g.first_seq <= p_seq;

  delete from laneway.retry t
   using laneway.reader r
   where r.lane_id = p_lane_id
     and t.reader_id = r.reader_id
     and t.seq <= p_seq;

  delete from laneway.revision v
   using laneway.reader r
   where r.lane_id = p_lane_id
     and v.reader_id = r.reader_id
     and v.seq <= p_seq
     and not exists (select from laneway.parked k where k.reader_id = v.reader_id and k.seq = v.seq)
     and (laneway.find_claim(v.reader_id, v.seq)).token is null;
end $$;
