-- What streams keep beside the log: leases over several lanes, where groups asked to begin, and traces.
create table laneway.stream_lease (
  lease uuid primary key,
  tokens uuid[] not null,                                             -- the claims it stands for …
  lanes int[] not null,                                               -- … and the lane of each
  created_at timestamptz not null default clock_timestamp()
);

-- Where a group begins in a queue it has not read yet. queue_id 0: in any queue.
create table laneway.stream_subscription (
  group_name text not null,
  queue_id int not null,
  mode text not null check (mode in ('all', 'new', 'time')),
  since timestamptz,                                                  -- null: from the earliest kept
  created_at timestamptz not null default clock_timestamp(),
  primary key (group_name, queue_id)
);

-- What consumers noted about a message on its way.
create table laneway.stream_trace (
  trace_id bigint generated always as identity primary key,
  lane_id int not null references laneway.lane on delete cascade,
  key text not null,                                                  -- the message's transaction id
  group_name text not null,
  event_type text not null,
  names text[] not null,
  data json not null,
  at timestamptz not null default clock_timestamp()
);
create index stream_trace_message on laneway.stream_trace (lane_id, key, trace_id);
create index stream_trace_names on laneway.stream_trace using gin (names);
create index stream_trace_at on laneway.stream_trace (at);
