-- Writes messages that were taken out of one queue into another, each with where it came from in its headers
-- ("moved": its id as a UUID, when it was first sent, its source, how often it was received, its key; what an earlier
-- move noted is kept). Without p_source nothing is noted but the key: the message starts anew.
-- Locks: those of push_many. Errors: those of push_many; no limit of size applies.
create or replace function laneway.forward_many(
  p_queues int[], p_source text, p_segments int[], p_lanes int[], p_seqs bigint[], p_created timestamptz[],
  p_partitions text[], p_priorities smallint[], p_keys text[], p_headers json[], p_bodies json[], p_attempts smallint[] default null) returns void
language plpgsql set search_path = '' as $$
declare
  v_headers json[];
begin
  v_headers := array(
    select case when m.moved is null and h.rest is null then null
                else ('{' || concat_ws(',', h.rest, '"moved":' || m.moved) || '}')::json end
      from unnest(p_segments, p_lanes, p_seqs, p_created, p_keys, p_headers, p_attempts) with ordinality i (segment, lane_id, seq, created_at, key, headers, attempt, n)
      cross join lateral (select i.segment, i.lane_id, i.seq, i.created_at, i.key, laneway.readable_headers(i.headers) as headers, i.attempt, i.n) u
      -- Each as its text, so that numbers stay as they were written; without what an earlier move noted.
      cross join lateral (select string_agg(to_json(e.key)::text || ':' || e.value::text, ',') as rest
                            from json_each(case when json_typeof(u.headers) = 'object' then u.headers else '{}' end) e where e.key <> 'moved') h
      cross join lateral (select nullif(json_strip_nulls(json_build_object(
          'id', case when p_source is not null then coalesce(u.headers #>> '{moved,id}', laneway.message_uuid(u.segment, u.lane_id, u.seq)::text) end,
          'sent', case when p_source is not null then coalesce((u.headers #>> '{moved,sent}')::bigint, floor(extract(epoch from u.created_at) * 1000)::bigint) end,
          'source', p_source,
          'received', case when p_source is not null then coalesce((u.headers #>> '{moved,received}')::int, 0) + u.attempt end,
          'key', coalesce(u.key, u.headers #>> '{moved,key}')))::text, '{}') as moved) m
     order by u.n);
  perform pg_catalog.set_config('laneway.draining', 'on', true);
  perform laneway.push_mixed(p_queues, p_bodies, p_partitions, p_priorities, array[interval '0'], null, v_headers, null, null);
  perform pg_catalog.set_config('laneway.draining', 'off', true);
end $$;
