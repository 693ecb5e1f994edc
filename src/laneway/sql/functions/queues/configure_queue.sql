-- Changes a queue's settings, and one section of its options at the same time: members of p_options replace those of
-- the section, objects are merged member by member, and a null takes one away. p_seen: when the queue had last been
-- changed, as the caller knows it whose change rests on what was there. Answers the queue's id.
-- Locks: the row, then its groups'. Errors: LW404 no such queue, LW422 an unknown, fixed or bad setting, LW503 it was
-- changed since p_seen.
create or replace function laneway.configure_queue(p_name text, p_settings json, p_section text, p_options json, p_seen timestamptz default null) returns int
language plpgsql set search_path = '' as $$
declare
  v_options jsonb;
  v_updated timestamptz;
  v_section jsonb;
  v_item record;
begin
  select q.options::jsonb, q.updated_at into v_options, v_updated from laneway.queue q where q.name = p_name for update;
  if v_updated <> p_seen then
    raise exception 'queue "%" was changed meanwhile', p_name using errcode = 'LW503', hint = 'Nothing was done; look at it and call again.';
  end if;
  v_section := coalesce(v_options -> p_section, '{}');
  for v_item in select o.key, o.value from jsonb_each(p_options::jsonb) o loop
    v_section := v_section || jsonb_build_object(v_item.key,
      case when jsonb_typeof(v_item.value) = 'object' then coalesce(v_section -> v_item.key, '{}') || v_item.value else v_item.value end);
  end loop;
  v_options := coalesce(v_options, '{}') || jsonb_build_object(p_section, jsonb_strip_nulls(v_section));
  return laneway.update_queue(p_name, (p_settings::jsonb || jsonb_build_object('options', v_options))::json);
end $$;
