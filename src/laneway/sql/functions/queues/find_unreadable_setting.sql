-- Return the first setting whose value its column of laneway.queue cannot store, and that column's type.
-- Both are null if all can, or if the text of p_settings cannot be read.
-- Locks: none. Errors: none.
create or replace function laneway.find_unreadable_setting(p_settings json, out setting text, out type text)
language plpgsql
set search_path = ''
as $$
begin
  for setting, type in
    select s.key, format_type(a.atttypid, a.atttypmod)
      from json_each(p_settings) s
      join pg_catalog.pg_attribute a on a.attrelid = 'laneway.queue'::regclass and a.attname = s.key
  loop
    begin
      perform json_populate_record(null::laneway.queue, json_build_object(setting, p_settings -> setting));
    exception when data_exception then
      return;
    end;
  end loop;
  setting := null;
  type := null;
exception when untranslatable_character then
  setting := null;
  type := null;
end $$;
