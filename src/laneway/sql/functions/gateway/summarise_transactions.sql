-- Return the figures that alerts are about: the age of the oldest transaction that is not final; how long the oldest
-- message in flight has been processed; and of the newest transactions (10,000 at most, of the last 15 minutes) how
-- many have been called, and how many of these have failed or wait for another attempt.
-- Locks: none. Errors: none.
create or replace function laneway.summarise_transactions(p_queue_id int)
returns table (oldest_open interval, longest_call interval, called bigint, failed bigint)
language sql stable
set search_path = '' set enable_seqscan = off
as $$
  select (select clock_timestamp() - t.created_at
            from laneway.gateway_transaction t
           where not t.final
           order by t.created_at, t.transaction_id
           limit 1),
         (select clock_timestamp() - min(c.claimed_at)
            from laneway.claim c
            join laneway.consumer_group g on g.group_id = c.group_id
           where g.queue_id = p_queue_id
             and g.name = 'default'
             and c.until > clock_timestamp()),
         n.called, n.failed
    from (select count(*) filter (where t.calls > 0) as called,
                 count(*) filter (where t.calls > 0 and t.error is not null) as failed
            from (select o.calls, o.error
                    from laneway.gateway_transaction o
                   where o.created_at > clock_timestamp() - interval '15 minutes'
                   order by o.created_at desc, o.transaction_id desc
                   limit 10000) t) n;
$$;
