-- Messages of some groups in one state, sorted and paged, with the columns of the view messages. p_sort: created_at,
-- priority, type, attempt_count, payload_size, or the moment that goes with the state (locked_until, acknowledged_at,
-- last_error); by anything but created_at, the newest 10000 that match are sorted. p_search is looked for in id,
-- type and payload. Reads lanes from their ends, so a page costs what it shows and skips, not what the queue holds.
-- Locks: none. Errors: LW422 unknown state or sort, a page that cannot be.
create or replace function laneway.list_messages(
  p_group_ids int[], p_status text, p_types text[] default null, p_priority smallint default null, p_min_attempts int default null,
  p_from timestamptz default null, p_to timestamptz default null, p_search text default null,
  p_sort text default 'created_at', p_descending boolean default true, p_limit int default 100, p_offset int default 0)
returns table (id text, queue_name text, group_name text, type text, payload json, headers json, priority smallint, status text, attempt_count smallint,
  max_attempts smallint, ack_timeout interval, lock_token uuid, locked_until timestamptz, consumer_id text, created_at timestamptz, dequeued_at timestamptz,
  acknowledged_at timestamptz, last_error text, payload_size int, available_at timestamptz, key text, queue_id int, group_id int, segment int, lane_id int, seq bigint)
language plpgsql stable set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off as $$
#variable_conflict use_column
declare
  v_most bigint := case when p_sort = 'created_at' then p_limit::bigint + p_offset else 10000 end;
  v_order text := case when p_descending then 'desc' else 'asc' end;
begin
  if p_limit < 0 or p_offset < 0 then
    raise exception 'a page cannot have % messages from % on', p_limit, p_offset using errcode = 'LW422', hint = 'Neither may be less than zero.';
  end if;
  if p_status is null or p_status not in ('queued', 'processing', 'acknowledged', 'dead', 'archived') then
    raise exception 'there is no state "%"', p_status using errcode = 'LW422', hint = 'States are queued, processing, acknowledged, dead and archived.';
  end if;
  if p_sort is null or p_sort not in ('created_at', 'priority', 'type', 'attempt_count', 'payload_size', 'locked_until', 'acknowledged_at', 'last_error', 'id', 'consumer_id', 'dequeued_at') then
    raise exception 'cannot sort by "%"', p_sort using errcode = 'LW422';
  end if;
  return query execute format($q$
    select * from (%s) m
     where ($1 is null or m.type = any ($1)) and ($2 is null or m.priority = $2) and ($3 is null or m.attempt_count >= $3)
       and ($4 is null or m.created_at >= $4) and ($5 is null or m.created_at <= $5)
     order by %I %s, m.created_at %s, m.lane_id, m.seq %s limit $6 offset $7
    $q$, laneway.listing_source(p_status, p_descending), p_sort, v_order, v_order, v_order)
    using p_types, p_priority, p_min_attempts, p_from, p_to, p_limit, p_offset, p_group_ids, v_most, nullif(p_search, '');
end $$;
