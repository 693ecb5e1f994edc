-- Remove due parked messages of one priority from a shared group's parked ones, the longest due first, and return them.
-- p_partition: of this partition only; null: of all, except those in p_avoid. p_limit: how many at most. p_now: which
-- are due.
-- The caller leases the messages in the same transaction (see insert_claims).
-- Locks: the parked rows; rows that another transaction has locked are skipped. Errors: none.
create or replace function laneway.pick_parked(
  p_group_id int,
  p_partition text,
  p_priority smallint,
  p_limit int,
  p_now timestamptz,
  p_avoid text[] default null)
returns setof laneway.picked_message
language plpgsql
set search_path = '' set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
declare
  v_due tid[];
begin
  -- Two statements, because each needs an index of its own.
  if p_partition is null then
    v_due := array(
      select k.ctid
        from laneway.parked k
       where k.group_id = p_group_id
         and k.priority = p_priority
         and k.available_at <= p_now
         and (p_avoid is null or k.partition <> all (p_avoid))
       order by k.available_at, k.seq
       limit p_limit
         for update skip locked);
  else
    v_due := array(
      select k.ctid
        from laneway.parked k
       where k.group_id = p_group_id
         and k.partition = p_partition
         and k.priority = p_priority
         and k.available_at <= p_now
       order by k.available_at, k.seq
       limit p_limit
         for update skip locked);
  end if;
  if v_due = '{}' then
    return;
  end if;
  return query
    with due as (
      delete from laneway.parked k
       where k.ctid = any (v_due)
      returning k.reader_id, k.lane_id, k.segment, k.seq, k.attempt, k.error, k.available_at)
    select d.reader_id, d.lane_id, d.segment, d.seq, least(d.attempt + 1, 32767)::smallint, true,
           (select c.lease from laneway.message_content(d.reader_id, d.segment, d.lane_id, d.seq) c), d.error
      from due d
     order by d.available_at, d.seq;
end $$;
