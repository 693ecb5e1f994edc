-- How many messages list_messages would list in all. Without filters by subtraction, exactly; with filters at most
-- p_most are counted, and that many means "or more". Locks: none. Errors: as list_messages.
create or replace function laneway.count_messages(
  p_group_ids int[], p_status text, p_types text[] default null, p_priority smallint default null, p_min_attempts int default null,
  p_from timestamptz default null, p_to timestamptz default null, p_search text default null, p_most int default 10000) returns bigint
language plpgsql stable set search_path = '' as $$
begin
  if p_types is null and p_priority is null and p_min_attempts is null and p_from is null and p_to is null and nullif(p_search, '') is null then
    return (select coalesce(sum(case p_status when 'queued' then c.queued when 'processing' then c.processing when 'acknowledged' then c.acknowledged
                                              when 'dead' then c.dead when 'archived' then c.archived end), 0) from laneway.counts(p_group_ids) c);
  end if;
  return (select count(*) from laneway.list_messages(p_group_ids, p_status, p_types, p_priority, p_min_attempts, p_from, p_to, p_search, 'created_at', true, p_most, 0));
end $$;
