-- A worker program: who it is, what it is doing, when it was last heard of. Its id is the consumer of its claims.
create table laneway.worker (
  worker_id text primary key,
  name text not null,
  host text not null,
  pid int not null,
  queues text[] not null,
  state text not null default 'ready' check (state in ('ready', 'polling', 'interrupted', 'suspended', 'stopped')),
  asked text check (asked in ('suspended', 'stopped')), -- what it is to become, told with its next heartbeat
  timeout interval not null check (timeout > interval '0'), -- not heard of for so long, it counts as dead
  handled bigint not null default 0,
  failed bigint not null default 0,
  started_at timestamptz not null default clock_timestamp(),
  heartbeat_at timestamptz not null default clock_timestamp(),
  stopped_at timestamptz
) with (fillfactor = 50);

-- What a handler returned, where its queue's worker keeps that.
create table laneway.result (
  lane_id int not null,
  seq bigint not null,
  result json,
  finished_at timestamptz not null default clock_timestamp(),
  expires_at timestamptz not null,
  primary key (lane_id, seq)
);
create index result_expiry on laneway.result (expires_at);

-- A periodic job: the newest of its times that was fired, by whichever worker came first.
create table laneway.schedule (
  name text primary key,
  expression text not null,
  queue_id int not null,
  fired_for timestamptz not null,
  fired_at timestamptz not null default clock_timestamp()
);

-- A run of a workflow; what drives it is a message in its queue.
create table laneway.workflow (
  run_id text primary key,
  name text not null,
  queue_id int not null,
  status text not null default 'running' check (status in ('running', 'paused', 'completed', 'failed', 'cancelled')),
  input json not null,
  result json,
  error text,
  created_at timestamptz not null default clock_timestamp(),
  finished_at timestamptz
);
create index workflow_created on laneway.workflow (created_at);

-- A step that is finished, or a timer: stored once, and not repeated.
create table laneway.workflow_step (
  run_id text not null references laneway.workflow on delete cascade,
  step text not null,
  result json,
  due_at timestamptz,                          -- a timer's
  finished_at timestamptz not null default clock_timestamp(),
  primary key (run_id, step)
);
