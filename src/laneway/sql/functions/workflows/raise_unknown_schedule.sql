-- Raise the error for a periodic job that does not exist. Locks: none. Errors: LW404.
create or replace function laneway.raise_unknown_schedule(p_name text, p_queue text) returns void
language plpgsql
set search_path = ''
as $$
begin
  raise exception 'schedule "%" of queue "%" does not exist', p_name, p_queue
    using errcode = 'LW404', hint = 'List the schedules. A worker registers its schedules when it starts.';
end $$;
