-- Drop one segment of message or event (p_table), if it exists. For events, record up to which transaction they are
-- gone.
-- Locks: access exclusive on the table. Errors: none.
create or replace function laneway.drop_log_partition(p_table text, p_segment int) returns void
language plpgsql
set search_path = ''
as $$
declare
  v_partition text := p_table || '_' || p_segment;
begin
  if pg_catalog.to_regclass(format('laneway.%I', v_partition)) is not null then
    if p_table = 'event' then
      execute format(
        'update laneway.dropped_events d
            set xid = e.xid
           from (select o.xid from laneway.event_%s o order by o.xid desc limit 1) e
          where e.xid > d.xid', p_segment);
    end if;
    execute format('alter table laneway.%I detach partition laneway.%I', p_table, v_partition);
    execute format('drop table laneway.%I', v_partition);
  end if;
end $$;
