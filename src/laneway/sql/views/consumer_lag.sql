-- How far each group is behind its queue, in messages and in time.
create or replace view laneway.consumer_lag as
  select c.queue, c.group_name, g.ordered, c.queued, c.processing, c.dead, c.oldest,
         coalesce(clock_timestamp() - c.oldest, interval '0') as lag
    from laneway.count_by_state() c
    join laneway.consumer_group g on g.group_id = c.group_id;

comment on view laneway.consumer_lag is 'How far each group is behind its queue, in messages and in time.';
