-- Producers and consumers of long-lived programs are registered beside workers.
alter table laneway.worker
  add column kind text not null default 'worker' check (kind in ('worker', 'consumer', 'producer'));
