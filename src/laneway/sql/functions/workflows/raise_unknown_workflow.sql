-- Raise the error for a workflow run that does not exist. Locks: none. Errors: LW404, always.
create or replace function laneway.raise_unknown_workflow(p_run_id text) returns void
language plpgsql
set search_path = ''
as $$
begin
  raise exception 'workflow run "%" does not exist', p_run_id
    using errcode = 'LW404', hint = 'It was never started, or it was purged.';
end $$;
