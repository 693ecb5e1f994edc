-- Release messages: they are ready again at once, or after p_delay, and the attempt does not count. The arrays have an
-- element per message.
-- Return the index (from 0) of each message whose lease has ended; for these nothing changed.
-- Locks: those of return_messages, in order of lane and token.
-- Errors: LW422 the arrays differ in length or contain null, or the delay is longer than 1000 years.
create or replace function laneway.release_many(
  p_tokens uuid[],
  p_lanes int[],
  p_seqs bigint[],
  p_delay interval default null)
returns table (idx int)
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
  v_now timestamptz := clock_timestamp();
  v_item record;                 -- a token and lane, with all seqs to release there
  v_part smallint;
  v_missed int8multirange;
begin
  if array_position(p_tokens, null) is not null
     or array_position(p_lanes, null) is not null
     or array_position(p_seqs, null) is not null
     or cardinality(p_lanes) is distinct from cardinality(p_tokens)
     or cardinality(p_seqs) is distinct from cardinality(p_tokens)
     or 9223372036854775807 = any (p_seqs) then
    raise exception 'tokens, lanes and seqs differ in number, or one is null or 9223372036854775807'
      using errcode = 'LW422';
  end if;
  if laneway.exceeds_interval_limit(array[p_delay]) then
    perform laneway.raise_long_interval(array[p_delay]);
  end if;
  for v_item in
    select u.token, u.lane_id, range_agg(int8range(u.seq, u.seq, '[]')) as seqs
      from unnest(p_tokens, p_lanes, p_seqs) u (token, lane_id, seq)
     group by u.token, u.lane_id
     order by u.lane_id, u.token
  loop
    v_missed := v_item.seqs;
    for v_part in
      select c.part
        from laneway.claim c
       where c.token = v_item.token
         and c.lane_id = v_item.lane_id
         and (c.until > v_now) is true
         and c.pending && v_item.seqs
       order by c.part
    loop
      v_missed := v_missed - coalesce(
        (select range_agg(int8range(r.seq, r.seq, '[]'))
           from laneway.return_messages(
                  v_item.token, v_item.lane_id, v_part, v_item.seqs, 'release', p_delay, null, null, 'released') r),
        '{}');
    end loop;
    return query
      select u.n::int - 1
        from unnest(p_tokens, p_lanes, p_seqs) with ordinality u (token, lane_id, seq, n)
       where u.token = v_item.token
         and u.lane_id = v_item.lane_id
         and v_missed @> u.seq;
  end loop;
end $$;
