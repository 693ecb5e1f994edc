-- Return which messages of one push do not fit into a queue, by position from 1: those after the first p_room.
-- Duplicates need no room. A message that repeats the key of an earlier one in the push fits if that one does.
-- p_dedup_by_partition: keys are per partition. p_queues, p_partitions and p_keys have an element per message.
-- Locks: none. Errors: none.
create or replace function laneway.find_messages_beyond(
  p_room bigint,
  p_queue_id int,
  p_dedup_by_partition boolean,
  p_queues int[],
  p_partitions text[],
  p_keys text[])
returns bigint[]
language plpgsql set search_path = '' as $$
begin
  return array(
    with wanted as (
      select u.n, u.key, case when p_dedup_by_partition then coalesce(u.partition, '') else '' end as scope
        from unnest(p_queues, p_partitions, p_keys) with ordinality u (queue_id, partition, key, n)
       where u.queue_id = p_queue_id),
    checked as (
      select w.n, w.key, w.scope,
             k.found is not null as known,
             row_number() over (partition by w.scope, w.key order by w.n) as nth_of_key
        from wanted w
        left join lateral (
          select true as found
            from laneway.dedup_key d
           where d.queue_id = p_queue_id
             and d.key = w.key
             and d.scope = w.scope
             and d.expires_at > clock_timestamp()
          offset 0) k on true),
    counted as (
      select c.n, c.key, c.scope, c.known,
             count(*) filter (where not c.known and (c.key is null or c.nth_of_key = 1)) over (order by c.n) as room
        from checked c),
    placed as (
      select c.n, c.known,
             case when c.key is null then c.room else min(c.room) over (partition by c.scope, c.key) end as room
        from counted c)
    select p.n
      from placed p
     where not p.known
       and p.room > p_room);
end $$;
