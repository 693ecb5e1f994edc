-- Change a queue's settings and, at the same time, one section of its options: members of p_options replace those of
-- the section, objects are merged member by member, and null removes a member. Return the queue's id.
-- p_seen: the queue's updated_at as the caller read it, if the change builds on what was there; else null.
-- Locks: the row, then its groups'.
-- Errors: LW404 no such queue, LW422 an unknown, fixed or invalid setting, LW503 the queue was changed since p_seen.
create or replace function laneway.configure_queue(
  p_name text, p_settings json, p_section text, p_options json, p_seen timestamptz default null)
returns int
language plpgsql
set search_path = ''
as $$
declare
  v_options jsonb;
  v_updated timestamptz;
  v_section jsonb;
  v_item record;
begin
  select q.options::jsonb, q.updated_at into v_options, v_updated
    from laneway.queue q
   where q.name = p_name
     for update;
  if v_updated <> p_seen then
    raise exception 'queue "%" was changed by another call', p_name
      using errcode = 'LW503', hint = 'Nothing was changed. Read the queue and call again.';
  end if;
  v_section := coalesce(v_options -> p_section, '{}');
  for v_item in select o.key, o.value from jsonb_each(p_options::jsonb) o loop
    v_section := v_section || jsonb_build_object(
      v_item.key,
      case when jsonb_typeof(v_item.value) = 'object'
           then coalesce(v_section -> v_item.key, '{}') || v_item.value
           else v_item.value end);
  end loop;
  v_options := coalesce(v_options, '{}') || jsonb_build_object(p_section, jsonb_strip_nulls(v_section));
  return laneway.update_queue(p_name, (p_settings::jsonb || jsonb_build_object('options', v_options))::json);
end $$;
