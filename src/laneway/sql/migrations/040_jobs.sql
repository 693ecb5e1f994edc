-- progress: of the messages that a worker handles, by id: [share, note], as of its last heartbeat.
-- leases_ended_at: when messages that it handles were last taken from it by hand. Its next heartbeat tells it.
alter table laneway.worker
  add column progress json,
  add column leases_ended_at timestamptz;
