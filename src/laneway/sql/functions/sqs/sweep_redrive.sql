-- Forgets attempts to receive, deletions and ended move tasks that nobody asks for any more. Answers how many.
-- Locks: their rows. Errors: none.
create or replace function laneway.sweep_redrive() returns int
language plpgsql set search_path = '' as $$
declare
  v_count int;
  v_more int;
begin
  delete from laneway.receive_attempt where expires_at <= clock_timestamp();
  get diagnostics v_count = row_count;
  delete from laneway.deleted_queue where deleted_at <= clock_timestamp() - interval '1 day';
  get diagnostics v_more = row_count;
  v_count := v_count + v_more;
  delete from laneway.move_task where status <> 'RUNNING' and stepped_at <= clock_timestamp() - interval '1 day';
  get diagnostics v_more = row_count;
  return v_count + v_more;
end $$;
