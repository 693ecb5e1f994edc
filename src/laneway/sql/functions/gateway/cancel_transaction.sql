-- Cancel a transaction that was not sent yet. Its message stays in the queue; whoever claims it acks it.
-- Return its status, and whether it is cancelled now; no row if it does not exist.
-- Locks: those of record_reports. Errors: those of record_reports.
create or replace function laneway.cancel_transaction(p_id uuid, p_webhook_queue_id int default null)
returns table (status text, cancelled boolean, told boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_open boolean;
begin
  select t.status, not t.final and t.upstream_id is null and t.sending_at is null
    into status, v_open
    from laneway.gateway_transaction t
   where t.transaction_id = p_id
     for update;
  if not found then
    return;
  end if;
  cancelled := false;
  told := false;
  if v_open then
    select r.status, r.changed, r.told
      into status, cancelled, told
      from laneway.record_reports(
             json_build_array(json_build_object('id', p_id, 'status', 'cancelled', 'rank', 32767, 'final', true)),
             p_webhook_queue_id) r;
  end if;
  return next;
end $$;
