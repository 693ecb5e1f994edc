-- Claim up to p_n messages of a queue, by priority, then by age, for use at a prompt. Ack or nack each before `until`.
-- p_lease: how long from now; null for the message's own lease, else the queue's.
-- Locks: as claim_spans. Errors: LW404 no such queue or group, LW422 an invalid number or lease.
create or replace function laneway.pop(
  p_queue text, p_n int default 1, p_lease interval default null, p_group text default 'default',
  p_consumer text default null)
returns table (
  id text, token uuid, partition text, priority smallint, attempt smallint, created_at timestamptz, until timestamptz,
  headers json, body json)
language sql
set search_path = ''
as $$
  select laneway.message_id(c.segment, c.lane_id, c.seq), c.token, c.partition, c.priority, c.attempt, c.created_at,
         c.until, c.headers, c.body
    from laneway.claim_many(
           laneway.find_group(p_queue, p_group), array[p_n],
           case when p_lease is not null then array[p_lease] end,
           case when p_consumer is not null then array[p_consumer] end) c;
$$;
