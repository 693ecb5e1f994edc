-- Return messages of a group by their ids (parallel arrays), with the columns of the view messages. Each is looked up
-- by its keys alone. Messages that do not exist are left out.
-- Locks: none. Errors: none.
create or replace function laneway.find_messages(p_group_id int, p_segments int[], p_lanes int[], p_seqs bigint[])
returns table (
  id text, queue_name text, group_name text, type text, payload json, headers json, priority smallint, status text,
  attempt_count smallint, max_attempts smallint, ack_timeout interval, lock_token uuid, locked_until timestamptz,
  consumer_id text, created_at timestamptz, dequeued_at timestamptz, acknowledged_at timestamptz, last_error text,
  payload_size int, available_at timestamptz, key text, queue_id int, group_id int, segment int, lane_id int,
  seq bigint)
language plpgsql stable
set search_path = ''
set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_item record;
  v_state text;
  v_message record;
  v_claim record;
begin
  for v_item in
    select u.segment, u.lane_id, u.seq, r.reader_id, q.queue_id, q.name as queue_name, g.name as group_name, g.ordered,
           q.max_attempts, q.lease
      from unnest(p_segments, p_lanes, p_seqs) with ordinality u (segment, lane_id, seq, n)
      join laneway.consumer_group g on g.group_id = p_group_id
      join laneway.queue q on q.queue_id = g.queue_id
      join laneway.reader r on r.group_id = p_group_id and r.lane_id = u.lane_id
     order by u.n
  loop
    v_state := laneway.message_state(v_item.reader_id, v_item.segment, v_item.lane_id, v_item.seq);
    continue when v_state is null;

    -- The message itself, from where its state stores it.
    if v_state = 'dead' then
      select d.partition, d.priority, d.created_at, d.lease,
             coalesce(d.attempt_limit, d.max_attempts) as max_attempts, d.key, d.headers, d.body, d.attempt,
             d.reason as error, d.consumer
        into v_message
        from laneway.dead_letter d
       where d.reader_id = v_item.reader_id
         and d.seq = v_item.seq;
    elsif v_state = 'archived' then
      select a.partition, a.priority, a.created_at, a.lease, a.max_attempts, a.key, a.headers, a.body, a.attempt,
             a.reason as error, a.consumer
        into v_message
        from laneway.archive a
       where a.reader_id = v_item.reader_id
         and a.seq = v_item.seq;
    else
      select c.partition, coalesce(k.priority, c.priority) as priority, c.created_at, c.lease, c.max_attempts, c.key,
             c.headers, c.body, coalesce(k.attempt, t.attempt) as attempt, coalesce(k.error, t.error) as error,
             null::text as consumer
        into v_message
        from laneway.message_content(v_item.reader_id, v_item.segment, v_item.lane_id, v_item.seq) c
        left join lateral (
          select k.priority, k.attempt, k.error
            from laneway.parked k
           where k.reader_id = v_item.reader_id
             and k.seq = v_item.seq) k on true
        left join lateral (
          select t.attempt, t.error
            from laneway.retry t
           where t.reader_id = v_item.reader_id
             and t.seq = v_item.seq) t on true;
    end if;
    continue when not found; -- its state changed in between

    -- Its claim, or its acknowledgement, and from when on it is available.
    select c.token, c.until, c.claimed_at, c.attempt, c.error, c.consumer, e.attempt as acked_attempt,
           e.consumer as acked_by, e.since, e.at,
           coalesce(
             (select k.available_at
                from laneway.parked k
               where v_state = 'queued'
                 and k.reader_id = v_item.reader_id
                 and k.seq = v_item.seq),
             (select m.deliver_at
                from laneway.message m
               where m.segment = v_item.segment
                 and m.lane_id = v_item.lane_id
                 and m.seq = v_item.seq)) as available_at
      into v_claim
      from (select 1) one
      left join lateral (
        select o.*
          from laneway.find_claim(v_item.reader_id, v_item.seq) o
         where v_state = 'processing'
           and o.token is not null) c on true
      left join lateral (
        select o.*
          from laneway.last_ack(p_group_id, v_item.lane_id, v_item.seq) o
         where v_state = 'acknowledged') e on true;

    return query
    select laneway.message_id(v_item.segment, v_item.lane_id, v_item.seq), v_item.queue_name, v_item.group_name,
           v_message.partition, v_message.body, v_message.headers, v_message.priority, v_state,
           case v_state
             when 'processing' then v_claim.attempt
             when 'acknowledged' then coalesce((v_message.attempt + (v_message.attempt < 32767)::int)::smallint,
                                               v_claim.acked_attempt, 0::smallint)
             else coalesce(v_message.attempt, 0::smallint) end,
           coalesce(v_message.max_attempts, v_item.max_attempts), coalesce(v_message.lease, v_item.lease),
           v_claim.token, v_claim.until, coalesce(v_claim.consumer, v_claim.acked_by, v_message.consumer),
           v_message.created_at, coalesce(v_claim.claimed_at, v_claim.since), v_claim.at,
           coalesce(v_message.error, v_claim.error), octet_length(v_message.body::text),
           case when v_state in ('dead', 'archived') then null else v_claim.available_at end, v_message.key,
           v_item.queue_id, p_group_id, v_item.segment, v_item.lane_id, v_item.seq;
  end loop;
end $$;
