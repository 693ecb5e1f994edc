-- Raise the error for a worker that does not exist. Locks: none. Errors: LW404, always.
create or replace function laneway.raise_unknown_worker(p_worker_id text) returns void
language plpgsql
set search_path = ''
as $$
begin
  raise exception 'worker "%" does not exist', p_worker_id
    using errcode = 'LW404', hint = 'It was never registered, or it was purged.';
end $$;
