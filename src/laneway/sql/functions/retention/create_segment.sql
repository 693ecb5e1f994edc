-- Create one segment of the log and, for a logged one, its segment of the events. It is not opened yet.
-- Locks: share update exclusive on message and event, briefly. Errors: none.
create or replace function laneway.create_segment(p_segment int) returns void
language plpgsql
set search_path = ''
as $$
begin
  -- With the check constraint, PostgreSQL attaches the table without a scan.
  execute format('create %s table laneway.message_%s (like laneway.message including all, '
                 'constraint bounds check (segment = %s))',
                 case when laneway.is_logged(p_segment) then '' else 'unlogged' end, p_segment, p_segment);
  execute format('create unique index message_%s_place on laneway.message_%s (lane_id, seq)', p_segment, p_segment);
  execute format('alter table laneway.message attach partition laneway.message_%s for values in (%s)',
                 p_segment, p_segment);
  execute format('alter table laneway.message_%s drop constraint bounds', p_segment);

  if laneway.is_logged(p_segment) then
    execute format('create table laneway.event_%s (like laneway.event including all, '
                   'constraint bounds check (segment = %s))', p_segment, p_segment);
    execute format('create index event_%s_order on laneway.event_%s (xid, event_id)', p_segment, p_segment);
    execute format('create index event_%s_seq on laneway.event_%s (lane_id, first_seq)', p_segment, p_segment);
    execute format('create index event_%s_wide on laneway.event_%s (lane_id) where last_seq - first_seq >= 10000',
                   p_segment, p_segment);
    execute format('create index event_%s_spread on laneway.event_%s (queue_id, at) where part_lane is not null',
                   p_segment, p_segment);
    execute format('alter table laneway.event attach partition laneway.event_%s for values in (%s)',
                   p_segment, p_segment);
    execute format('alter table laneway.event_%s drop constraint bounds', p_segment);
  end if;

  insert into laneway.segment (segment) values (p_segment);
end $$;
