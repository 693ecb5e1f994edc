-- Delete a group with all its state. The queue's own group, default, cannot be deleted.
-- Locks: the queue's advisory lock, exclusive; then the readers' locks or, if there are more than 2000 readers, none of
-- them: sweep_forgotten deletes their rows later.
-- Errors: LW404 no such queue or group, LW422 the queue's own group.
create or replace function laneway.delete_group(p_queue text, p_name text) returns void
language plpgsql
set search_path = ''
as $$
declare
  v_group record;
begin
  select g.group_id, g.queue_id into v_group
    from laneway.consumer_group g
    join laneway.queue q on q.queue_id = g.queue_id
   where q.name = p_queue
     and g.name = p_name;
  if not found then
    raise exception 'group "%" of queue "%" does not exist', p_name, p_queue
      using errcode = 'LW404', hint = 'List the groups of the queue to see their names.';
  end if;
  if p_name = 'default' then
    raise exception 'group "default" is the own group of queue "%"', p_queue
      using errcode = 'LW422', hint = 'Delete the queue instead.';
  end if;
  perform pg_catalog.pg_advisory_xact_lock('laneway.queue'::regclass::oid::int, v_group.queue_id);
  perform laneway.forget_group(
    v_group.group_id,
    (select count(*) > 2000 from (select from laneway.reader r where r.group_id = v_group.group_id limit 2001) r));
end $$;
