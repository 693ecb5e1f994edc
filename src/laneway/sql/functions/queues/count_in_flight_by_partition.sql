-- Count the messages of a group that are in flight by partition, as count_in_flight does.
-- Locks: none. Errors: none.
create or replace function laneway.count_in_flight_by_partition(p_group_id int)
returns table (partition text, messages bigint)
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
  select l.partition, sum(f.messages)::bigint
    from (select r.lane_id, c.messages
            from laneway.reader r
            cross join lateral (
              select sum(laneway.count_seqs(o.pending)) as messages
                from laneway.claim o
               where o.reader_id = r.reader_id
                 and (o.until > clock_timestamp()) is true) c
           where r.group_id = p_group_id
             and c.messages > 0) f
    join laneway.lane l on l.lane_id = f.lane_id
   group by l.partition;
$$;
