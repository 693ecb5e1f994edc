-- What detectors found remarkable, how far they have looked, and who takes messages. Events are read in the order of
-- their transactions, so that is how each segment of them is indexed from here on.
create table laneway.anomaly (
  anomaly_id bigint generated always as identity primary key,
  xid xid8,                                                           -- null: found without an event, by looking
  event_id bigint,
  at timestamptz not null,
  type text not null,
  severity text not null check (severity in ('info', 'warning', 'critical')),
  description text not null,
  threshold float8,
  actual float8,
  kind text not null,                                                 -- of the event, as event_kind says
  queue_id int,
  queue_name text,
  message_segment int,
  lane_id int,
  seqs int8multirange,                                                -- null: about the queue, not about messages
  consumer text
);
create index anomaly_at on laneway.anomaly (at, anomaly_id);
create index anomaly_event on laneway.anomaly (xid, event_id);

create table laneway.consumer_activity (
  queue_id int not null references laneway.queue on delete cascade,
  consumer text not null,
  taken bigint not null,
  last_at timestamptz not null,
  primary key (queue_id, consumer)
);
create index consumer_activity_last on laneway.consumer_activity (last_at);

-- How far detectors have looked, and what of the past a person wants to see no more. One row.
create table laneway.activity (
  only_row boolean primary key default true check (only_row),
  seen pg_snapshot not null,
  cleared xid8 not null default '0'
);
insert into laneway.activity (seen) values (pg_current_snapshot());

do $$
declare
  v_segment int;
begin
  for v_segment in select s.segment from laneway.segment s where s.segment % 2 = 0 loop
    execute format('create index event_%s_order on laneway.event_%s (xid, event_id)', v_segment, v_segment);
    execute format('drop index laneway.event_%s_id', v_segment);
  end loop;
end $$;
