-- Refuses the longest of these keys, with its partition: no index can hold it. Locks: none. Errors: LW422.
create or replace function laneway.raise_long_dedup_key(p_queues int[], p_partitions text[], p_keys text[]) returns void
language plpgsql set search_path = '' as $$
declare
  v_item record;
begin
  select q.name, i.partition, i.key into v_item
    from unnest(p_queues, p_partitions, p_keys) i (queue_id, partition, key) left join laneway.queue q on q.queue_id = i.queue_id
   where i.key is not null order by octet_length(i.key) + coalesce(octet_length(i.partition), 0) desc limit 1;
  perform laneway.raise_long_address(v_item.name, v_item.partition, v_item.key);
end $$;
