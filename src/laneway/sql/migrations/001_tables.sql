-- The tables of the broker: one append-only log, small mutable tables beside it.
-- Whoever reads design rules here: nothing on a hot path updates a row per message, and every hot statement
-- reaches a mutable table by its key or by a range from a known floor.

-- How long things are kept and how the log is cut. One row.
create table laneway.policy (
  only_row boolean primary key default true check (only_row),
  segment_interval interval not null default '2 hours' check (segment_interval > interval '0'),
  segment_bytes bigint not null default 4294967296 check (segment_bytes > 0),
  retention interval not null default '1 day' check (retention >= interval '0'),
  event_retention interval not null default '1 day' check (event_retention >= interval '0')
);
insert into laneway.policy default values;

create table laneway.queue (
  queue_id int generated always as identity primary key,
  name text not null unique check (name <> ''),
  kind text not null default 'standard' check (kind in ('standard', 'unlogged', 'partitioned')),
  ordered boolean not null default false,
  lease interval not null default '30 seconds' check (lease > interval '0'),
  max_attempts smallint default 3 check (max_attempts > 0),           -- null: never dead by attempts
  backoff interval not null default '0' check (backoff >= interval '0'),
  backoff_factor float8 not null default 2 check (backoff_factor >= 1),
  backoff_limit interval not null default '1 hour' check (backoff_limit >= interval '0'),
  delay interval check (delay > interval '0'),                        -- every message waits this long
  dedup_window interval not null default '5 minutes' check (dedup_window > interval '0'),
  dedup_scope text not null default 'queue' check (dedup_scope in ('queue', 'partition')),
  retention interval check (retention >= interval '0'),               -- null: policy.retention
  message_ttl interval check (message_ttl > interval '0'),            -- null: undelivered messages never expire
  max_bytes int not null default 1048576 check (max_bytes > 0),
  record_events boolean not null default true,
  description text,
  options json not null default '{}',                                 -- what a protocol keeps beside its queue
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp()
);

-- Even segments are logged, odd ones UNLOGGED. opened_at null: made ahead of time, not yet in use.
create table laneway.segment (
  segment int primary key,
  created_at timestamptz not null default clock_timestamp(),
  opened_at timestamptz,
  closed_at timestamptz
);

create table laneway.lane (
  lane_id int generated always as identity primary key,
  queue_id int not null references laneway.queue on delete cascade,
  partition text not null,
  priority smallint not null,
  stripe smallint not null default 0,
  base bigint not null default 0,        -- the newest seq that is no longer kept
  created_at timestamptz not null default clock_timestamp(),
  unique (queue_id, partition, priority, stripe)
);

-- The log. Each segment has its own unique index on (lane_id, seq); segment is not part of it, because a
-- backward probe for the newest seq would then test every entry of the leaf page against it.
create table laneway.message (
  segment int not null,
  lane_id int not null,
  seq bigint not null,
  created_at timestamptz not null,
  deliver_at timestamptz,
  lease interval,
  max_attempts smallint,
  key text,
  headers json,
  body json not null
) partition by list (segment);

create table laneway.consumer_group (
  group_id int generated always as identity primary key,
  queue_id int not null references laneway.queue on delete cascade,
  name text not null check (name <> ''),
  ordered boolean not null default false,
  created_at timestamptz not null default clock_timestamp(),
  unique (queue_id, name)
);

create table laneway.reader (
  reader_id int generated always as identity primary key,
  group_id int not null references laneway.consumer_group on delete cascade,
  lane_id int not null references laneway.lane on delete cascade,
  priority smallint not null,
  ready boolean not null default true,
  unique (group_id, lane_id)
) with (fillfactor = 70);
create index reader_ready on laneway.reader (group_id, priority desc, reader_id) where ready;
create index reader_idle on laneway.reader (lane_id) where not ready;
create index reader_lane on laneway.reader (lane_id);

-- How far a reader has handed out: the row with the highest step counts.
create table laneway.progress (
  reader_id int not null,
  step bigint generated always as identity,
  segment int not null,
  seq bigint not null,
  exceptions_until bigint not null default 0,  -- gap and retry rows may lie ahead, up to this seq
  token uuid,                                  -- ordered groups: the claim that holds the lane
  not_before timestamptz,                      -- ordered groups: the lane waits for a retry until then
  moved_at timestamptz not null,
  primary key (reader_id, step)
);

-- A lock. A token whose messages got different deadlines has several parts.
create table laneway.claim (
  token uuid not null,
  part smallint not null default 0,
  reader_id int not null,
  group_id int not null,
  lane_id int not null,
  segment int not null,
  first_seq bigint not null,
  last_seq bigint not null,
  pending int8multirange not null,
  attempt smallint not null,
  aside boolean not null,                      -- taken from parked, not from the reader's place in the log
  claimed_at timestamptz not null,
  until timestamptz not null,
  consumer text,
  primary key (token, part)
) with (fillfactor = 70);
create index claim_until on laneway.claim (until);
create index claim_reader on laneway.claim (reader_id, first_seq);

-- A message that is handed out out of turn: after a nack, a timeout, a delay, an edit, a move.
create table laneway.parked (
  reader_id int not null,
  seq bigint not null,
  segment int not null,
  group_id int not null,
  lane_id int not null,
  partition text not null,
  priority smallint not null,
  available_at timestamptz not null,
  attempt smallint not null,
  error text,
  primary key (reader_id, seq)
);
create index parked_due on laneway.parked (group_id, priority desc, available_at, seq);
create index parked_partition_due on laneway.parked (group_id, partition, priority desc, available_at, seq);

-- Seqs that the reader must step over. gone: nothing else accounts for them (deleted, purged, expired);
-- not gone: one seq that was settled or taken out before its turn.
create table laneway.gap (
  reader_id int not null,
  first_seq bigint not null,
  last_seq bigint not null check (last_seq >= first_seq),
  gone boolean not null,
  primary key (reader_id, first_seq),
  check (gone or first_seq = last_seq)
);

-- Ordered groups: a message that failed and will come again in its place.
create table laneway.retry (
  reader_id int not null,
  seq bigint not null,
  attempt smallint not null,
  error text,
  primary key (reader_id, seq)
);

-- What one reader sees instead of the log's content: an edited message, or one that outlives its segment.
create table laneway.revision (
  reader_id int not null,
  seq bigint not null,
  partition text not null,
  priority smallint not null,
  created_at timestamptz not null,
  lease interval,
  max_attempts smallint,
  key text,
  headers json,
  body json not null,
  primary key (reader_id, seq)
);

create table laneway.dead_letter (
  reader_id int not null,
  seq bigint not null,
  segment int not null,
  group_id int not null,
  lane_id int not null,
  partition text not null,
  priority smallint not null,
  created_at timestamptz not null,
  died_at timestamptz not null,
  attempt smallint not null,
  reason text,
  consumer text,
  lease interval,
  max_attempts smallint,
  key text,
  headers json,
  body json not null,
  primary key (reader_id, seq)
);
create index dead_letter_group on laneway.dead_letter (group_id, died_at, seq);

create table laneway.archive (
  reader_id int not null,
  seq bigint not null,
  segment int not null,
  group_id int not null,
  lane_id int not null,
  partition text not null,
  priority smallint not null,
  created_at timestamptz not null,
  archived_at timestamptz not null,
  attempt smallint not null,
  reason text,
  consumer text,
  lease interval,
  max_attempts smallint,
  key text,
  headers json,
  body json not null,
  primary key (reader_id, seq)
);
create index archive_group on laneway.archive (group_id, archived_at, seq);

create table laneway.dedup_key (
  queue_id int not null,
  scope text not null,                         -- '' or the partition, as queue.dedup_scope says
  key text not null,
  segment int not null,
  lane_id int not null,
  seq bigint not null,
  expires_at timestamptz not null,
  primary key (queue_id, scope, key)
);
create index dedup_key_expiry on laneway.dedup_key (expires_at);

-- What happened to a run of seqs: one row per operation and lane. Where the operation served several claims,
-- the part_ arrays say which run was whose; the view events has a row for each. segment is the (logged half of
-- the) segment the messages are in, or the log's current one where that may be gone, so that old events are dropped
-- whole; message_segment is where the messages are. xid lets a reader take only what is complete.
create sequence laneway.event_id_seq cache 32;
create table laneway.event (
  segment int not null,
  event_id bigint not null default nextval('laneway.event_id_seq'),
  xid xid8 not null default pg_current_xact_id(),
  at timestamptz not null,
  action text not null,
  queue_id int not null,
  group_id int,
  lane_id int,
  message_segment int,
  first_seq bigint,
  last_seq bigint,
  attempt smallint,
  token uuid,
  consumer text,
  since timestamptz,                           -- ack, nack, expiry: when the claim began
  reason text,
  detail json,
  part_first bigint[],
  part_last bigint[],
  part_token uuid[],
  part_consumer text[],
  part_since timestamptz[]
) partition by list (segment);

-- A push inside somebody's own transaction, moved to its lane after that commits.
create table laneway.outbox (
  outbox_id bigint generated always as identity primary key,
  queue_id int not null,
  partition text not null,
  priority smallint not null,
  delay interval,
  lease interval,
  max_attempts smallint,
  key text,
  headers json,
  body json not null,
  created_at timestamptz not null default clock_timestamp()
);

alter table laneway.claim set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
alter table laneway.progress set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
alter table laneway.parked set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
alter table laneway.reader set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
alter table laneway.outbox set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
alter table laneway.dedup_key set (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
