-- Push messages that were removed from one queue to another, and record in their headers where they came from:
-- "moved": {id (as a UUID), sent (Unix milliseconds), source, queue, received (attempts), key}. What an earlier move
-- recorded of id, sent, received and key is kept. With p_source null only the key is recorded: the message starts anew.
-- p_source: how consumers name the queue that they come from, which may be its ARN; "queue" is its name. The arrays
-- have one element per message, p_queues one or as many. With p_source, all messages come from one queue.
-- Locks: those of push_many. Errors: those of push_many, but bodies may have any size.
create or replace function laneway.forward_many(
  p_queues int[],
  p_source text,
  p_segments int[],
  p_lanes int[],
  p_seqs bigint[],
  p_created timestamptz[],
  p_partitions text[],
  p_priorities smallint[],
  p_keys text[],
  p_headers json[],
  p_bodies json[],
  p_attempts smallint[] default null)
returns void
language plpgsql set search_path = '' as $$
declare
  v_headers json[];
  v_queue text;
begin
  if p_source is not null then
    v_queue := (select q.name
                  from laneway.lane l
                  join laneway.queue q on q.queue_id = l.queue_id
                 where l.lane_id = p_lanes[1]);
  end if;
  v_headers := array(
    select case
             when moved.fields is not null or kept.fields is not null
             then ('{' || concat_ws(',', kept.fields, '"moved":' || moved.fields) || '}')::json
           end
      from unnest(p_segments, p_lanes, p_seqs, p_created, p_keys, p_headers, p_attempts)
           with ordinality m (segment, lane_id, seq, created_at, key, raw_headers, attempt, n)
     cross join lateral (select laneway.readable_headers(m.raw_headers) as headers) h
     -- The other headers, each as its text, so that numbers keep their notation.
     cross join lateral (
       select string_agg(to_json(e.key)::text || ':' || e.value::text, ',') as fields
         from json_each(case when json_typeof(h.headers) = 'object' then h.headers else '{}' end) e
        where e.key <> 'moved') kept
     cross join lateral (
       select case
                when p_source is not null
                then json_build_object(
                  'id', coalesce(h.headers #>> '{moved,id}', laneway.message_uuid(m.segment, m.lane_id, m.seq)::text),
                  'sent', coalesce((h.headers #>> '{moved,sent}')::bigint,
                                   floor(extract(epoch from m.created_at) * 1000)::bigint),
                  'source', p_source,
                  'queue', v_queue,
                  'received', coalesce((h.headers #>> '{moved,received}')::int, 0) + m.attempt,
                  'key', coalesce(m.key, h.headers #>> '{moved,key}'))
                else json_build_object('key', coalesce(m.key, h.headers #>> '{moved,key}'))
              end as fields) record
     cross join lateral (select nullif(json_strip_nulls(record.fields)::text, '{}') as fields) moved
     order by m.n);

  perform pg_catalog.set_config('laneway.draining', 'on', true);
  perform laneway.push_mixed(
    p_queues, p_bodies, p_partitions, p_priorities, array[interval '0'], null, v_headers, null, null);
  perform pg_catalog.set_config('laneway.draining', 'off', true);
end $$;
