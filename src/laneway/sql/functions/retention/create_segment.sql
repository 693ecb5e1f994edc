-- Makes one segment of the log and, beside a logged one, of the events; not yet opened.
-- Locks: share update exclusive on message and event, briefly. Errors: none of our own.
create or replace function laneway.create_segment(p_segment int) returns void
language plpgsql set search_path = '' as $$
begin
  execute format('create %s table laneway.message_%s (like laneway.message including all, constraint bounds check (segment = %s))',
                 case when p_segment % 2 = 1 then 'unlogged' else '' end, p_segment, p_segment);
  execute format('create unique index message_%s_place on laneway.message_%s (lane_id, seq)', p_segment, p_segment);
  execute format('alter table laneway.message attach partition laneway.message_%s for values in (%s)', p_segment, p_segment);
  execute format('alter table laneway.message_%s drop constraint bounds', p_segment);
  if p_segment % 2 = 0 then
    execute format('create table laneway.event_%s (like laneway.event including all, constraint bounds check (segment = %s))', p_segment, p_segment);
    execute format('create index event_%s_order on laneway.event_%s (xid, event_id)', p_segment, p_segment);
    execute format('create index event_%s_seq on laneway.event_%s (lane_id, first_seq)', p_segment, p_segment);
    execute format('create index event_%s_wide on laneway.event_%s (lane_id) where last_seq - first_seq >= 10000', p_segment, p_segment);
    execute format('create index event_%s_spread on laneway.event_%s (queue_id, at) where part_lane is not null', p_segment, p_segment);
    execute format('alter table laneway.event attach partition laneway.event_%s for values in (%s)', p_segment, p_segment);
    execute format('alter table laneway.event_%s drop constraint bounds', p_segment);
  end if;
  insert into laneway.segment (segment) values (p_segment);
end $$;
