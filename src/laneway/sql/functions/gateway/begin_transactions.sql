-- Decide what to do with messages that a gateway process has claimed, and note the calls that it will make. The arrays
-- have an element per message, each of another transaction.
-- Return each by index from 0, with the action: 'send'; 'ask', the result of an earlier call is unknown, so ask the
-- target first; 'skip', it is submitted, cancelled or final; 'busy', another message of the transaction is in flight,
-- and its call is not finished; 'missing', there is no such transaction; 'lost', the message's lease has ended. And
-- how long the lease goes on.
-- A transaction that was given up is sent again: its dead letter was redriven. A process that did not get the answer
-- repeats the call under the same lease: it has sent nothing yet.
-- Locks: the transactions' rows, in order of their ids. Errors: none.
create or replace function laneway.begin_transactions(
  p_ids uuid[], p_tokens uuid[], p_segments int[], p_lanes int[], p_seqs bigint[])
returns table (idx int, action text, calls int, upstream_id text, upstream_url text, lease_left interval)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
begin
  -- Nobody begins a call under a lease that ended while this waited for the rows.
  perform
     from laneway.gateway_transaction t
    where t.transaction_id = any (p_ids)
    order by t.transaction_id
      for update;
  return query
    with decided as (
      select u.transaction_id, u.token, u.segment, u.lane_id, u.seq, u.n, t.calls, t.upstream_id, t.upstream_url,
             c.until - clock_timestamp() as lease_left,
             case
               when t.transaction_id is null then 'missing'
               when c.until is null then 'lost'
               when t.given_up and t.sending_at is null then 'send'
               when t.given_up then 'ask'
               when t.final or t.upstream_id is not null then 'skip'
               when t.sending_at is null or t.sending_token = u.token then 'send'
               when (t.segment, t.lane_id, t.seq) = (u.segment, u.lane_id, u.seq) then 'ask'
               when laneway.is_message_in_flight(t.lane_id, t.seq) then 'busy'
               else 'ask'
             end as action
        from unnest(p_ids, p_tokens, p_segments, p_lanes, p_seqs)
             with ordinality u (transaction_id, token, segment, lane_id, seq, n)
        left join laneway.gateway_transaction t on t.transaction_id = u.transaction_id
        left join lateral (
          select k.until
            from laneway.claim k
           where k.token = u.token
             and k.lane_id = u.lane_id
             and k.pending @> u.seq
             and k.until > clock_timestamp()
           limit 1) c on true),
    noted as (
      update laneway.gateway_transaction t
         set sending_at = clock_timestamp(),
             sending_token = case when d.action = 'send' then d.token else t.sending_token end,
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
    select d.n::int - 1, d.action, coalesce(n.calls, d.calls), d.upstream_id, d.upstream_url, d.lease_left
      from decided d
      left join noted n on n.transaction_id = d.transaction_id;
end $$;
