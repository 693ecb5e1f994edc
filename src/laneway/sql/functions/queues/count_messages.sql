-- Count the messages that list_messages would list in all. Without filters the count is exact and by subtraction. With
-- filters, counting stops at p_most: that number means "or more".
-- Locks: none. Errors: LW422 an unknown state, or a negative p_most.
create or replace function laneway.count_messages(
  p_group_ids int[], p_status text, p_types text[] default null, p_priority smallint default null,
  p_min_attempts int default null, p_from timestamptz default null, p_to timestamptz default null,
  p_search text default null, p_most int default 10000)
returns bigint
language plpgsql stable
set search_path = ''
set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
  v_count bigint;
begin
  if p_types is null and p_priority is null and p_min_attempts is null and p_from is null and p_to is null
     and nullif(p_search, '') is null then
    return (
      select coalesce(sum(case p_status
                          when 'queued' then c.queued
                          when 'processing' then c.processing
                          when 'acknowledged' then c.acknowledged
                          when 'dead' then c.dead
                          when 'archived' then c.archived end), 0)
        from laneway.count_by_state(p_group_ids) c);
  end if;
  if p_most < 0 then
    raise exception 'the number of messages to count must not be negative: %', p_most
      using errcode = 'LW422', hint = 'Give 0 or more.';
  end if;
  execute format('select count(*) from (select from (%s) m limit $9) m',
                 laneway.list_messages_source(p_status, true, p_min_attempts is not null))
     into v_count
    using p_types, p_priority, p_min_attempts, p_from, p_to, null, null, p_group_ids, p_most, nullif(p_search, '');
  return v_count;
end $$;
