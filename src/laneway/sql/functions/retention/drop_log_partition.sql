-- Drops one segment's part of message or event, if it is there, and notes up to which transaction events may be gone.
-- Locks: access exclusive on the table. Errors: none.
create or replace function laneway.drop_log_partition(p_table text, p_segment int) returns void
language plpgsql set search_path = '' as $$
begin
  if pg_catalog.to_regclass(format('laneway.%I', p_table || '_' || p_segment)) is not null then
    if p_table = 'event' then
      execute format('update laneway.dropped_events d set xid = e.xid from (select o.xid from laneway.event_%s o order by o.xid desc limit 1) e where e.xid > d.xid', p_segment);
    end if;
    execute format('alter table laneway.%1$I detach partition laneway.%2$I', p_table, p_table || '_' || p_segment);
    execute format('drop table laneway.%I', p_table || '_' || p_segment);
  end if;
end $$;
