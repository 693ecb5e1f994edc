-- Return a message as its queue's default group sees it, with the progress that its handler has reported and its stored
-- result. Once the message is no longer kept, only its result. Locks: none. Errors: none.
create or replace function laneway.find_job(p_segment int, p_lane_id int, p_seq bigint)
returns table (
  queue text, status text, attempt smallint, error text, progress json, result json, finished_at timestamptz)
language sql stable
set search_path = ''
as $$
  select coalesce(m.queue_name, q.name), m.status, m.attempt_count, m.last_error,
         case when m.status = 'processing' then (
           select w.progress -> m.id from laneway.worker w where w.worker_id = m.consumer_id) end,
         r.result, r.finished_at
    from laneway.lane l
    join laneway.queue q on q.queue_id = l.queue_id
    left join laneway.messages m
      on m.segment = p_segment and m.lane_id = p_lane_id and m.seq = p_seq and m.group_name = 'default'
    left join laneway.find_result(p_lane_id, p_seq) r on true
   where l.lane_id = p_lane_id
     and (m.id is not null or r.finished_at is not null);
$$;
