-- How long the database keeps what the lake says of the past; the lake itself keeps it for good.
alter table laneway.policy add column history_retention interval not null default '90 days' check (history_retention >= interval '0');
create index history_traffic_at on laneway.history_traffic (at);
create index history_consumer_at on laneway.history_consumer (at);
