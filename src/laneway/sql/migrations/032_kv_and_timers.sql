-- Keys and values of clients. Locks are keys, too: a permit of a lock is a row of the namespace queen-locks.
-- Versions come from one sequence, so a key that is deleted and written again gets a higher one.
create sequence laneway.kv_version;
create table laneway.kv (
  namespace text collate "C" not null,
  key text collate "C" not null,
  value json not null,
  version bigint not null,
  expires_at timestamptz,                          -- null: never
  created_at timestamptz not null,                 -- since when the key exists
  updated_at timestamptz not null,
  primary key (namespace, key)
) with (fillfactor = 70);
create index kv_expiry on laneway.kv (expires_at) where expires_at is not null;
alter table laneway.kv set (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Messages to push at a time.
create table laneway.timer (
  queue_id int not null references laneway.queue on delete cascade,
  key text collate "C" not null,
  timer_id uuid not null,                          -- another one whenever the timer is set
  partition text not null,
  deliver_at timestamptz not null,
  due_at timestamptz not null,                     -- deliver_at or, after a push that failed, the next attempt
  attempts int not null default 0,                 -- pushes that failed
  error text,                                      -- why the last one did
  dedup_key text not null,
  headers json,
  body json not null,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  primary key (queue_id, key)
);
create index timer_due on laneway.timer (due_at);
alter table laneway.timer set (
  autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Lists of partitions go by their age.
create index lane_queue on laneway.lane (queue_id, lane_id);
