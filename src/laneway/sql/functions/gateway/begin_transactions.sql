-- Decide what to do with messages that a gateway process has claimed, and note the calls that it will make. The arrays
-- have an element per message, each of another transaction.
-- Return each by index from 0, with the action: 'send'; 'ask', the result of an earlier call is unknown, so ask the
-- target first; 'skip', it is submitted, cancelled or final; 'busy', another message of the transaction is in flight,
-- and its call is not finished; 'missing', there is no such transaction.
-- A transaction that was given up is sent again: its dead letter was redriven.
-- Locks: the transactions' rows, in order of their ids. Errors: none.
create or replace function laneway.begin_transactions(p_ids uuid[], p_segments int[], p_lanes int[], p_seqs bigint[])
returns table (idx int, action text, calls int, upstream_id text, upstream_url text)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  return query
    with locked as (
      select t.transaction_id, t.final, t.given_up, t.sending_at, t.calls, t.upstream_id, t.upstream_url,
             t.segment, t.lane_id, t.seq
        from laneway.gateway_transaction t
       where t.transaction_id = any (p_ids)
       order by t.transaction_id
         for update),
    decided as (
      select u.transaction_id, u.segment, u.lane_id, u.seq, u.n, l.calls, l.upstream_id, l.upstream_url,
             case
               when l.transaction_id is null then 'missing'
               when l.given_up and l.sending_at is null then 'send'
               when l.given_up then 'ask'
               when l.final or l.upstream_id is not null then 'skip'
               when l.sending_at is null then 'send'
               when (l.segment, l.lane_id, l.seq) = (u.segment, u.lane_id, u.seq) then 'ask'
               when laneway.is_message_in_flight(l.lane_id, l.seq) then 'busy'
               else 'ask'
             end as action
        from unnest(p_ids, p_segments, p_lanes, p_seqs) with ordinality u (transaction_id, segment, lane_id, seq, n)
        left join locked l on l.transaction_id = u.transaction_id),
    noted as (
      update laneway.gateway_transaction t
         set sending_at = clock_timestamp(),
             calls = case when t.given_up then 1 else t.calls + 1 end,
             status = case when t.given_up then 'pending' else t.status end,
             rank = case when t.given_up then 0 else t.rank end,
             final = false,
             given_up = false,
             segment = d.segment,
             lane_id = d.lane_id,
             seq = d.seq,
             updated_at = clock_timestamp()
        from decided d
       where t.transaction_id = d.transaction_id
         and d.action in ('send', 'ask')
      returning t.transaction_id, t.calls)
    select d.n::int - 1, d.action, coalesce(n.calls, d.calls), d.upstream_id, d.upstream_url
      from decided d
      left join noted n on n.transaction_id = d.transaction_id;
end $$;
