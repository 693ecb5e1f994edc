-- Delete expired receive attempts, and records of deleted queues and ended move tasks that are a day old. Return how
-- many.
-- Locks: their rows. Errors: none.
create or replace function laneway.sweep_sqs() returns int
language plpgsql
set search_path = ''
as $$
declare
  v_count int;
  v_rows int;
begin
  delete from laneway.receive_attempt where expires_at <= clock_timestamp();
  get diagnostics v_count = row_count;
  delete from laneway.deleted_queue where deleted_at <= clock_timestamp() - interval '1 day';
  get diagnostics v_rows = row_count;
  v_count := v_count + v_rows;
  delete from laneway.move_task where status <> 'RUNNING' and stepped_at <= clock_timestamp() - interval '1 day';
  get diagnostics v_rows = row_count;
  return v_count + v_rows;
end $$;
