-- Periodic jobs are registered before their first time, with their message, so that they can be listed, paused and run
-- by hand. fired_for: -infinity until the first time.
alter table laneway.schedule
  alter column fired_for set default '-infinity',
  alter column fired_at drop not null,
  alter column fired_at drop default,
  add column body json,                                   -- null: the job's name and the time
  add column partition text not null default '',
  add column priority smallint not null default 0,
  add column headers json,
  add column paused_at timestamptz;
