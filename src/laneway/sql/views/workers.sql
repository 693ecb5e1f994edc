-- Workers, and consumers and producers of long-lived programs, and how many messages each has in flight.
create or replace view laneway.workers as
  select w.worker_id, w.name, w.host, w.pid, w.queues, w.state, w.asked, w.timeout, w.handled, w.failed, w.started_at,
         w.heartbeat_at, w.stopped_at, laneway.count_in_flight_of_worker(w.worker_id) as held,
         clock_timestamp() - w.heartbeat_at as silence, w.kind
    from laneway.worker w;

comment on view laneway.workers is 'Workers, consumers and producers, and how many messages each has in flight.';
comment on column laneway.workers.asked is 'The state that the worker is asked to change to.';
comment on column laneway.workers.held is 'Messages in flight.';
comment on column laneway.workers.silence is 'Time since the last heartbeat.';
comment on column laneway.workers.kind is 'worker, consumer or producer.';
