-- Refuse the longest of some dedup keys, with its partition: it is too long for an index. The arrays have an element
-- per message.
-- Locks: none. Errors: LW422.
create or replace function laneway.raise_long_dedup_key(p_queues int[], p_partitions text[], p_keys text[]) returns void
language plpgsql set search_path = '' as $$
declare
  v_message record;
begin
  select q.name, m.partition, m.key
    into v_message
    from unnest(p_queues, p_partitions, p_keys) m (queue_id, partition, key)
    left join laneway.queue q on q.queue_id = m.queue_id
   where m.key is not null
   order by octet_length(m.key) + coalesce(octet_length(m.partition), 0) desc
   limit 1;
  perform laneway.raise_long_address(v_message.name, v_message.partition, v_message.key);
end $$;
