-- Give up open transactions whose messages are gone without a result: they became dead letters when leases expired, or
-- somebody deleted or purged them. It examines p_limit transactions from a place on, oldest first.
-- p_min_age: those that changed within it are left out. p_failed: the status that they get.
-- Return how many were given up, and the place to continue from: null at the end.
-- Locks: the rows of those whose messages are gone, in order of their ids; those of push_many. Errors: those of
-- record_reports.
create or replace function laneway.fail_lost_transactions(
  p_after timestamptz default null,
  p_after_id uuid default null,
  p_limit int default 500,
  p_min_age interval default '1 minute',
  p_failed text default 'failed',
  p_webhook_queue_id int default null)
returns table (failed int, next_at timestamptz, next_id uuid, told boolean)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_transaction record;
  v_ids uuid[] := '{}';    -- whose messages are gone
  v_reports json;
  v_seen int := 0;
begin
  for v_transaction in
    -- One statement, so that the transaction and the state of its message are of one moment.
    select t.transaction_id, t.created_at,
           t.upstream_id is null
           and t.updated_at < clock_timestamp() - p_min_age
           and not exists (
             select
               from laneway.lane l
               join laneway.consumer_group g
                 on g.queue_id = l.queue_id
                and g.name = 'default'
               join laneway.reader r
                 on r.group_id = g.group_id
                and r.lane_id = l.lane_id
              where l.lane_id = t.lane_id
                and laneway.message_state(r.reader_id, t.segment, t.lane_id, t.seq)
                    in ('queued', 'processing')) as lost
      from laneway.gateway_transaction t
     where not t.final
       and (t.created_at, t.transaction_id)
           > (coalesce(p_after, '-infinity'), coalesce(p_after_id, '00000000-0000-0000-0000-000000000000'))
     order by t.created_at, t.transaction_id
     limit p_limit
  loop
    v_seen := v_seen + 1;
    next_at := v_transaction.created_at;
    next_id := v_transaction.transaction_id;
    if v_transaction.lost then
      v_ids := v_ids || v_transaction.transaction_id;
    end if;
  end loop;
  if v_seen < p_limit then
    next_at := null;
    next_id := null;
  end if;
  -- A result that was stored since the transaction was read explains why its message is gone.
  v_reports := (
    select json_agg(json_build_object(
             'id', t.transaction_id,
             'given_up', true,
             'status', p_failed,
             'rank', 32767,
             'final', true,
             'error', case
               when t.sending_at is not null
                 then format('no result after %s calls: the result of the last one is unknown', t.calls)
               else 'its message is no longer in the queue: it became a dead letter, or was deleted'
             end))
      from (select o.transaction_id, o.sending_at, o.calls
              from laneway.gateway_transaction o
             where o.transaction_id = any (v_ids)
               and not o.final
               and o.upstream_id is null
               and o.updated_at < clock_timestamp() - p_min_age
             order by o.transaction_id
               for update) t);
  failed := 0;
  told := false;
  if v_reports is not null then
    select count(*) filter (where r.changed), bool_or(r.told)
      into failed, told
      from laneway.record_reports(v_reports, p_webhook_queue_id) r;
  end if;
  return next;
end $$;
