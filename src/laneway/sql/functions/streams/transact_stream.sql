-- Push messages as push_within_limits does and settle others as settle_stream does, all or nothing. Every lease of
-- p_required, and every lease named with a message that is settled already, must still have a claim in time.
-- Return the rows of push_within_limits (pushed true), then those of settle_stream.
-- Locks: as push_within_limits; then as settle_stream and, for queues with a rest window, start_rest_windows.
-- Errors: LW409 a queue is full, LW410 a lease has ended or a message cannot be settled; those of push_within_limits.
create or replace function laneway.transact_stream(
  p_required uuid[],
  p_lanes int[], p_keys text[], p_segments int[], p_seqs bigint[], p_groups text[], p_leases uuid[], p_actions text[],
  p_reasons text[],
  p_queues int[], p_bodies json[], p_partitions text[] default null, p_push_keys text[] default null,
  p_headers json[] default null, p_guards smallint[] default null, p_new text[] default null,
  p_settings json[] default null)
returns table (
  pushed boolean, idx int, outcome text, released boolean, implied int, messages int, segment int, lane_id int,
  seq bigint,
  duplicate boolean)
language plpgsql
set search_path = ''
as $$
#variable_conflict use_column
declare
  v_lease uuid;
  v_ended_leases uuid[];
  v_item record;
  v_pushed_lanes int[] := '{}';
  v_resting_lanes int[] := '{}';
begin
  -- Push first, because lanes are locked before readers everywhere.
  if cardinality(p_bodies) > 0 then
    for v_item in
      select p.*
        from laneway.push_within_limits(p_queues, p_bodies, p_partitions, p_push_keys, p_headers, p_guards, p_new,
                                        p_settings, true) p
    loop
      if not v_item.duplicate then
        v_pushed_lanes := v_pushed_lanes || v_item.lane_id;
      end if;
      return query
        select true, v_item.idx, null::text, null::boolean, null::int, v_item.messages, v_item.segment, v_item.lane_id,
               v_item.seq, v_item.duplicate;
    end loop;
    v_resting_lanes := array(
      select l.lane_id
        from laneway.lane l
        join laneway.queue q on q.queue_id = l.queue_id
       where l.lane_id = any (v_pushed_lanes)
         and q.rest_window is not null);
  end if;

  -- Lock the readers of the settled and of the resting lanes together, in order of lane, then the required claims.
  perform laneway.lock_reader(r.reader_id)
     from (select r.reader_id
             from laneway.reader r
            where r.lane_id = any (v_resting_lanes)
               or (r.lane_id = any (p_lanes)
                   and exists (
                     select from laneway.consumer_group g
                      where g.group_id = r.group_id
                        and g.name = any (p_groups)))
            order by r.lane_id, r.reader_id
           offset 0) r;
  perform from laneway.claim c
    where c.token = any (array(
      select t.token
        from unnest(p_required) l (lease)
        cross join lateral unnest(laneway.lease_tokens(l.lease)) t (token)))
    order by c.lane_id, c.token, c.part
      for update;
  foreach v_lease in array coalesce(p_required, '{}') loop
    if not exists (
      select from laneway.claim c
       where c.token = any (laneway.lease_tokens(v_lease))
         and (c.until > clock_timestamp()) is true) then
      raise exception 'lease % has ended', v_lease
        using errcode = 'LW410', hint = 'It expired or was released. The transaction was rolled back.';
    end if;
  end loop;

  -- Settle.
  if cardinality(p_lanes) > 0 then
    v_ended_leases := array(
      select l.lease
        from (select distinct u.lease
                from unnest(p_leases) u (lease)
               where u.lease is not null) l
       where not exists (
         select from laneway.claim c
          where c.token = any (laneway.lease_tokens(l.lease))
            and (c.until > clock_timestamp()) is true));
    for v_item in
      select s.idx, s.outcome, s.released, s.implied
        from laneway.settle_stream(p_lanes, p_keys, p_segments, p_seqs, p_groups, p_leases, p_actions, p_reasons) s
    loop
      -- A caller that lost its lease must not push: another consumer completed the message and has pushed already.
      if v_item.outcome in ('unresolved', 'unleased', 'lease', 'committed')
         or (v_item.outcome = 'noop' and p_leases[v_item.idx + 1] = any (v_ended_leases)) then
        raise exception 'message "%" cannot be settled: %', p_keys[v_item.idx + 1],
            case v_item.outcome
              when 'unresolved' then 'unresolvable, there is no such message'
              when 'unleased' then 'it is not leased'
              when 'committed' then 'the group has committed it already'
              else 'its lease has expired or is another consumer''s' end
          using errcode = 'LW410', hint = 'The transaction was rolled back.';
      end if;
      return query
        select false, v_item.idx, v_item.outcome, v_item.released, v_item.implied, null::int, null::int, null::int,
               null::bigint, null::boolean;
    end loop;
  end if;
  perform laneway.start_rest_windows(v_resting_lanes);

  -- Check the limits at the end: settled messages have made room, and duplicates take none.
  for v_item in
    select q.name, q.max_messages
      from laneway.queue q
     where q.queue_id in (select l.queue_id from laneway.lane l where l.lane_id = any (v_pushed_lanes))
       and q.max_messages is not null
       and (select max(c.queued + c.processing)
              from laneway.count_by_state(laneway.list_counted_groups(q.queue_id)) c) > q.max_messages
     order by q.queue_id
     limit 1
  loop
    raise exception 'queue "%" is full: its maxSize is %', v_item.name, v_item.max_messages
      using errcode = 'LW409', hint = 'The transaction was rolled back.';
  end loop;
end $$;
