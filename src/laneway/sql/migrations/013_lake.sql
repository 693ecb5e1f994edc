-- What Spark needs of the database: places for rows on their way in, a record of what was published, and one of what
-- left the log for the lake.

-- Rows that tasks of a Spark job have written and that its driver has not published yet. UNLOGGED: what a crash takes
-- with it is staged again, and publishing counts the rows.
create unlogged table laneway.staged (
  attempt text collate "C" not null,                                  -- run/epoch/task/…; a task that failed has another
  place bigint not null,                                              -- of a row in its attempt
  staged_at timestamptz not null default clock_timestamp(),
  partition text,
  priority int,
  delay float8,                                                       -- seconds
  key text,
  headers json,
  body json not null
);
create index staged_place on laneway.staged (attempt, place);
alter table laneway.staged set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0);

-- What was published once and will not be again: an epoch of a stream, or a named run.
create table laneway.published (
  run text not null check (run <> ''),
  epoch bigint not null,
  queue_id int not null,
  messages bigint not null,
  at timestamptz not null default clock_timestamp(),
  primary key (run, epoch)
);
create index published_at on laneway.published (at);

-- Segments whose messages are in the lake, compared lane by lane.
create table laneway.offloaded (
  segment int primary key,
  at timestamptz not null default clock_timestamp()
);

-- Whether the log waits for the lake: a segment that is not there yet is not dropped.
alter table laneway.policy add column wait_for_lake boolean not null default false;

-- The newest transaction whose events may be gone. One row.
create table laneway.dropped_events (
  only_row boolean primary key default true check (only_row),
  xid xid8 not null
);
insert into laneway.dropped_events (xid) values ('0');

-- What the lake says of the past, for people to look at: traffic per minute and hour, consumers, and findings.
create table laneway.history_traffic (
  grain text not null check (grain in ('minute', 'hour')),
  at timestamptz not null,
  queue text not null,
  group_name text not null,
  type text not null,
  enqueued bigint not null,
  claimed bigint not null,
  acked bigint not null,
  dead bigint not null,
  retried bigint not null,
  removed bigint not null,                                            -- deleted, expired or moved away: gone without an ack
  rate float8 not null,                                               -- settled a second
  retry_rate float8,                                                  -- retried of all hand-outs
  dead_rate float8,                                                   -- dead of all settled
  wait_p50 float8, wait_p95 float8, wait_p99 float8,                  -- seconds from enqueued to first claimed
  work_p50 float8, work_p95 float8, work_p99 float8,                  -- seconds from the last claim to settled
  backlog bigint not null,                                            -- unsettled at the end
  primary key (grain, at, queue, group_name, type)
);
create table laneway.history_consumer (
  grain text not null check (grain in ('minute', 'hour')),
  at timestamptz not null,
  queue text not null,
  group_name text not null,
  type text not null,
  consumer text not null,
  claimed bigint not null,
  acked bigint not null,
  dead bigint not null,
  retried bigint not null,
  rate float8 not null,
  work_p50 float8, work_p95 float8, work_p99 float8,
  primary key (grain, at, queue, group_name, type, consumer)
);
create table laneway.history_anomaly (
  at timestamptz not null,
  type text not null,
  severity text not null check (severity in ('info', 'warning', 'critical')),
  queue text not null,
  group_name text,
  consumer text,
  description text not null,
  threshold float8,
  actual float8,
  score float8                                                        -- of a baseline: how far off, in robust deviations
);
create index history_anomaly_at on laneway.history_anomaly (at);
