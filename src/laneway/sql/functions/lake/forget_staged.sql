-- Delete the staged rows of one epoch of a run, of all attempts. Locks: the rows. Errors: none.
create or replace function laneway.forget_staged(p_run text, p_epoch bigint) returns void
language plpgsql
set search_path = ''
set enable_seqscan = off
as $$
begin
  delete from laneway.staged s
   where s.attempt >= format('%s/%s/', p_run, p_epoch)
     and s.attempt < format('%s/%s0', p_run, p_epoch); -- '0' follows '/'
end $$;
