-- Runs have a priority, and a paused run may resume by itself.
alter table laneway.workflow
  add column priority smallint not null default 0,
  add column resume_at timestamptz;                        -- of a paused run; null: it is resumed by a call only
