-- Record what is known about transactions, and push a message for the webhook of each whose status changes.
-- p_reports: a JSON array of objects. id: the transaction's. called: the result of its call is known.
-- given_up: its message became a dead letter. status, rank, final, hash, result, error, upstream_id, upstream_url,
-- confirmed_at: as in laneway.gateway_transaction; what is missing stays. Of several reports for one transaction, the
-- one of the highest rank counts.
-- A status replaces one of a lower rank, unless that is final. A final one replaces that of a transaction that was
-- given up: the result of its call came late. A late report does not change the hash either.
-- p_webhook_queue_id: the queue of webhook messages; null: none are pushed.
-- Return the transactions that exist, and whether their status changed and whether a webhook message was pushed.
-- Locks: the transactions' rows, in order of their ids; those of push_many. Errors: those of push_many.
create or replace function laneway.record_reports(p_reports json, p_webhook_queue_id int default null)
returns table (transaction_id uuid, status text, final boolean, changed boolean, told boolean)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_row record;
  v_urls text[] := '{}';
  v_headers json[] := '{}';
  v_bodies json[] := '{}';
begin
  for v_row in
    with report as (
      select distinct on (r.id) r.*
        from json_to_recordset(p_reports) r (
               id uuid, called boolean, given_up boolean, status text, rank smallint, final boolean, hash text,
               result json, error text, upstream_id text, upstream_url text, confirmed_at timestamptz)
       order by r.id, r.rank desc nulls last),
    locked as (
      select t.transaction_id,
             coalesce(
               (r.rank > t.rank and not t.final) or (t.given_up and r.final and not coalesce(r.given_up, false)),
               false) as rises
        from report r
        join laneway.gateway_transaction t on t.transaction_id = r.id
       order by t.transaction_id
         for update of t)
    update laneway.gateway_transaction t
       set status = case when l.rises then r.status else t.status end,
           rank = case when l.rises then r.rank else t.rank end,
           final = case when l.rises then r.final else t.final end,
           given_up = case when l.rises then coalesce(r.given_up, false) else t.given_up end,
           hash = case
             when t.hash is not null and (r.rank < t.rank or t.final and not l.rises) then t.hash
             else coalesce(r.hash, t.hash) end,
           result = case when l.rises or t.result is null then coalesce(r.result, t.result) else t.result end,
           error = case
             when t.final and not l.rises then t.error
             when l.rises and r.final then r.error
             else coalesce(r.error, t.error) end,
           upstream_id = coalesce(t.upstream_id, r.upstream_id),
           upstream_url = coalesce(t.upstream_url, r.upstream_url),
           sending_at = case when r.called then null else t.sending_at end,
           confirmed_at = case when l.rises then coalesce(r.confirmed_at, t.confirmed_at) else t.confirmed_at end,
           updated_at = clock_timestamp()
      from report r, locked l
     where t.transaction_id = r.id
       and l.transaction_id = r.id
    returning t.transaction_id, t.status, t.final, t.target, t.hash, t.webhook_url, t.updated_at, l.rises
  loop
    transaction_id := v_row.transaction_id;
    status := v_row.status;
    final := v_row.final;
    changed := v_row.rises;
    told := v_row.rises and v_row.webhook_url is not null and p_webhook_queue_id is not null;
    if told then
      v_urls := v_urls || v_row.webhook_url;
      v_headers := v_headers || json_build_object('url', v_row.webhook_url, 'target', v_row.target);
      v_bodies := v_bodies || json_build_object(
        'event', 'transaction.status.updated',
        'transactionId', v_row.transaction_id,
        'status', v_row.status,
        'hash', v_row.hash,
        'timestamp', laneway.utc_text(v_row.updated_at));
    end if;
    return next;
  end loop;
  if cardinality(v_bodies) > 0 then
    perform laneway.push_many(
      p_queues => array[p_webhook_queue_id],
      p_bodies => v_bodies,
      p_partitions => array(select left(u.url, 255) from unnest(v_urls) with ordinality u (url, n) order by u.n),
      p_headers => v_headers);
  end if;
end $$;
