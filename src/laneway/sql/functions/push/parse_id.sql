-- Return a message's address from its public id. Locks: none. Errors: LW422 the text is not an id.
create or replace function laneway.parse_id(p_id text) returns table (segment int, lane_id int, seq bigint)
language plpgsql immutable set search_path = '' as $$
begin
  if p_id !~ '^(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,9})-(0|[1-9][0-9]{0,18})$' then
    raise exception '"%" is not a message id', p_id
      using errcode = 'LW422',
            hint = 'An id looks like 2-17-4711.';
  end if;
  begin
    return query
      select split_part(p_id, '-', 1)::int, split_part(p_id, '-', 2)::int, split_part(p_id, '-', 3)::bigint;
  exception when numeric_value_out_of_range then
    raise exception '"%" is not a message id: its numbers are out of range', p_id
      using errcode = 'LW422',
            hint = 'An id looks like 2-17-4711.';
  end;
end $$;
