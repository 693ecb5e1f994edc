-- Push messages and ack others in one transaction, all or nothing. Arguments are those of ack_many and push_many; the
-- result is that of push_many.
-- Locks: those of push_many, then those of ack_many.
-- Errors: LW410 the lease of a message to ack has ended; those of push_many.
create or replace function laneway.push_and_ack(
  p_ack_tokens uuid[],
  p_ack_lanes int[],
  p_ack_first bigint[],
  p_ack_last bigint[],
  p_queues int[],
  p_bodies json[],
  p_partitions text[] default null,
  p_priorities smallint[] default null,
  p_delays interval[] default null,
  p_keys text[] default null,
  p_headers json[] default null,
  p_leases interval[] default null,
  p_max_attempts smallint[] default null,
  p_windows interval[] default null)
returns table (idx int, messages int, segment int, lane_id int, seq bigint, duplicate boolean)
language plpgsql set search_path = '' as $$
#variable_conflict use_column
declare
  v_lost record;
begin
  return query
    select *
      from laneway.push_many(
             p_queues, p_bodies, p_partitions, p_priorities, p_delays, p_keys, p_headers, p_leases, p_max_attempts,
             p_windows => p_windows);
  if cardinality(p_ack_tokens) > 0 then
    select a.idx, a.first_seq
      into v_lost
      from laneway.ack_many(p_ack_tokens, p_ack_lanes, p_ack_first, p_ack_last) a
     limit 1;
    if found then
      raise exception 'lease of message % in lane % has ended', v_lost.first_seq, p_ack_lanes[v_lost.idx + 1]
        using errcode = 'LW410',
              hint = 'The transaction was rolled back. Claim the message again.';
    end if;
  end if;
end $$;
