-- What queues that take other queues' dead letters need, and clients that ask again.

-- Puts all that waits in a queue into another one, or each message where it came from, at a pace.
create table laneway.move_task (
  task_id uuid primary key default gen_random_uuid(),
  queue_id int not null references laneway.queue on delete cascade,
  target_id int references laneway.queue on delete set null,
  target text,                                                        -- null: each message's own source
  rate int check (rate > 0),                                          -- messages a second; null: as fast as it goes
  status text not null default 'RUNNING' check (status in ('RUNNING', 'COMPLETED', 'CANCELLED', 'FAILED')),
  moved bigint not null default 0,
  total bigint not null,                                              -- how many there were at the start
  reason text,
  started_at timestamptz not null default clock_timestamp(),
  stepped_at timestamptz not null default clock_timestamp()
);
create unique index move_task_running on laneway.move_task (queue_id) where status = 'RUNNING';

-- What an attempt to receive got, so that a repetition gets the same.
create table laneway.receive_attempt (
  queue_id int not null references laneway.queue on delete cascade,
  attempt text not null,
  tokens uuid[] not null,
  segments int[] not null,
  lanes int[] not null,
  seqs bigint[] not null,
  expires_at timestamptz not null,
  primary key (queue_id, attempt)
);

-- Names of queues that are not to be made again too soon.
create table laneway.deleted_queue (
  name text primary key,
  deleted_at timestamptz not null
);
