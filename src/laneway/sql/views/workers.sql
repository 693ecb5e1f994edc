-- Worker programs, and how much each has in hand.
create or replace view laneway.workers as
  select w.worker_id, w.name, w.host, w.pid, w.queues, w.state, w.asked, w.timeout, w.handled, w.failed, w.started_at, w.heartbeat_at, w.stopped_at,
         laneway.count_in_flight_of_worker(w.worker_id) as held, clock_timestamp() - w.heartbeat_at as silence
    from laneway.worker w;
