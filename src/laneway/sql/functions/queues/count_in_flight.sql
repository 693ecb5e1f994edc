-- Count the messages of a group that are in flight: leased, and the lease has not ended. Locks: none. Errors: none.
create or replace function laneway.count_in_flight(p_group_id int) returns bigint
language sql stable
set search_path = ''
set enable_seqscan = off set enable_bitmapscan = off
as $$
  select coalesce(sum(laneway.count_seqs(c.pending)), 0)::bigint
    from laneway.reader r
    cross join lateral (
      select o.pending
        from laneway.claim o
       where o.reader_id = r.reader_id
         and (o.until > clock_timestamp()) is true) c
   where r.group_id = p_group_id;
$$;
