-- Return the claim in which a message is pending for a reader, or null. A claim covers at most 10,000 seqs (see
-- claim_spans), which bounds the search.
-- Locks: none. Errors: none.
create or replace function laneway.find_claim(p_reader_id int, p_seq bigint) returns laneway.claim
language sql stable
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
as $$
  select c.*
    from laneway.claim c
   where c.reader_id = p_reader_id
     and c.first_seq between greatest(p_seq, 0) - 10000 and p_seq
     and c.last_seq >= p_seq
     and c.pending @> p_seq
   order by c.first_seq desc
   limit 1;
$$;
