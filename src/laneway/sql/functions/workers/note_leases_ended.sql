-- Note that leases of these consumers were ended by hand. Those that are workers are told with their next heartbeat.
-- Locks: the workers' rows, in order of id. Errors: none.
create or replace function laneway.note_leases_ended(p_consumers text[]) returns void
language plpgsql
set search_path = ''
as $$
begin
  perform from laneway.worker w where w.worker_id = any (p_consumers) order by w.worker_id for update;
  update laneway.worker w
     set leases_ended_at = clock_timestamp()
   where w.worker_id = any (p_consumers);
end $$;
