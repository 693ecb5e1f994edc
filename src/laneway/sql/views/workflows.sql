-- Workflow runs, and how many steps each has finished.
create or replace view laneway.workflows as
  select w.run_id, w.name, q.name as queue, w.status, w.input, w.result, w.error, w.created_at, w.finished_at,
         (select count(*) from laneway.workflow_step s where s.run_id = w.run_id) as steps,
         w.priority, w.resume_at
    from laneway.workflow w
    left join laneway.queue q on q.queue_id = w.queue_id;

comment on view laneway.workflows is 'Workflow runs, and how many steps each has finished.';
comment on column laneway.workflows.resume_at is 'When a paused run resumes by itself.';
