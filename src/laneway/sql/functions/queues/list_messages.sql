-- Return messages of some groups in one state, sorted and paged, with the columns of the view messages.
-- p_search: what id, type or payload contain. A filter that is null matches everything.
-- p_sort: created_at, priority, type, attempt_count, payload_size, id, consumer_id, dequeued_at, or the column of the
-- state (locked_until, acknowledged_at, last_error). By anything but created_at, only the newest 10000 that match are
-- sorted.
-- Lanes are read from their ends: a page costs what it shows and skips, not what the queue contains.
-- Locks: none. Errors: LW422 an unknown state or sort, or a negative limit or offset.
create or replace function laneway.list_messages(
  p_group_ids int[], p_status text, p_types text[] default null, p_priority smallint default null,
  p_min_attempts int default null, p_from timestamptz default null, p_to timestamptz default null,
  p_search text default null, p_sort text default 'created_at', p_descending boolean default true,
  p_limit int default 100, p_offset int default 0)
returns table (
  id text, queue_name text, group_name text, type text, payload json, headers json, priority smallint, status text,
  attempt_count smallint, max_attempts smallint, ack_timeout interval, lock_token uuid, locked_until timestamptz,
  consumer_id text, created_at timestamptz, dequeued_at timestamptz, acknowledged_at timestamptz, last_error text,
  payload_size int, available_at timestamptz, key text, queue_id int, group_id int, segment int, lane_id int,
  seq bigint)
language plpgsql stable
set search_path = ''
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
  v_most bigint := case when p_sort = 'created_at' then p_limit::bigint + p_offset else 10000 end;
  v_order text;
  v_page text;
  -- Acknowledgements are looked up for the rows of the page only, unless they decide which rows those are.
  v_acks boolean := p_min_attempts is not null
    or p_sort in ('attempt_count', 'acknowledged_at', 'consumer_id', 'dequeued_at');
begin
  if p_limit < 0 or p_offset < 0 then
    raise exception 'limit and offset must not be negative: % and %', p_limit, p_offset
      using errcode = 'LW422', hint = 'Give 0 or more.';
  end if;
  if p_sort is null
     or p_sort not in ('created_at', 'priority', 'type', 'attempt_count', 'payload_size', 'locked_until',
                       'acknowledged_at', 'last_error', 'id', 'consumer_id', 'dequeued_at') then
    raise exception 'cannot sort by "%"', p_sort
      using errcode = 'LW422', hint = 'Sort by created_at, priority, type, attempt_count or payload_size.';
  end if;

  v_order := format('m.%1$I %2$s, m.created_at %2$s, m.lane_id, m.seq %2$s',
                    p_sort, case when p_descending then 'desc' else 'asc' end);
  v_page := format('select m.* from (%s) m order by %s limit $6 offset $7',
                   laneway.list_messages_source(p_status, p_descending, v_acks), v_order);
  if p_status = 'acknowledged' and not v_acks then
    v_page := format($q$
      select m.id, m.queue_name, m.group_name, m.type, m.payload, m.headers, m.priority, m.status,
             coalesce(e.attempt, m.attempt_count), m.max_attempts, m.ack_timeout, m.lock_token, m.locked_until,
             e.consumer, m.created_at, e.since, e.at, m.last_error, m.payload_size, m.available_at, m.key, m.queue_id,
             m.group_id, m.segment, m.lane_id, m.seq
        from (%s) m
        left join lateral laneway.last_ack(m.group_id, m.lane_id, m.seq) e on true
       order by %s$q$, v_page, v_order);
  end if;
  return query execute v_page
    using p_types, p_priority, p_min_attempts, p_from, p_to, p_limit, p_offset, p_group_ids, v_most,
          nullif(p_search, '');
end $$;
