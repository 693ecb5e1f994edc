-- Return whether a pair of segments has any message or event. p_segment: the logged one. Locks: none. Errors: none.
create or replace function laneway.segment_used(p_segment int) returns boolean
language plpgsql
set search_path = ''
as $$
declare
  v_used boolean;
begin
  execute format('select exists (select from laneway.message_%1$s) or exists (select from laneway.event_%1$s)',
                 p_segment)
     into v_used;
  if not v_used and exists (select from laneway.segment s where s.segment = p_segment + 1) then
    execute format('select exists (select from laneway.message_%s)', p_segment + 1)
       into v_used;
  end if;
  return v_used;
end $$;
