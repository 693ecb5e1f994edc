-- Count the messages of a group whose time has not come: parked ones and, of those ahead of its readers, the newest
-- thousand of each of a thousand lanes. Locks: none. Errors: none.
create or replace function laneway.count_delayed(p_group_id int) returns bigint
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
  select (select count(*)
            from laneway.parked k
           where k.group_id = p_group_id
             and k.available_at > clock_timestamp()
             and k.attempt = 0)
       + (select count(*)
            from (select r.reader_id, r.lane_id
                    from laneway.reader r
                   where r.group_id = p_group_id
                     and r.ready
                   limit 1000) r
            cross join lateral laneway.newest_progress(r.reader_id) p
            cross join lateral (
              select m.deliver_at
                from laneway.message m
               where m.segment >= p.segment
                 and m.lane_id = r.lane_id
                 and m.seq > p.seq
               order by m.seq desc
               limit 1000) m
           where m.deliver_at > clock_timestamp());
$$;
