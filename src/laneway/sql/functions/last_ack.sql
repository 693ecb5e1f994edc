-- What is on record of a message's acknowledgement, by its holder or by hand: attempt, consumer, claimed and acknowledged when.
-- Locks: none. Errors: none.
create or replace function laneway.last_ack(p_group_id int, p_lane_id int, p_seq bigint)
returns table (attempt smallint, consumer text, since timestamptz, at timestamptz)
language sql stable set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
  select e.attempt, e.consumer, e.since, e.at from laneway.history(p_lane_id, p_seq) e
   where (e.action = 'acked' or (e.action = 'moved' and e.detail ->> 'to' = 'acknowledged')) and e.group_id = p_group_id order by e.xid desc, e.event_id desc limit 1;
$$;
