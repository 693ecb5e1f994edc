-- Requests that the gateway has accepted, and what is known about them. Their messages, which say that they are to be
-- sent, are ordinary messages of an ordinary queue.
create table laneway.gateway_transaction (
  transaction_id uuid primary key,
  target text collate "C" not null,
  type text not null,
  status text not null,
  rank smallint not null default 0,                -- a report of a lower rank, or of the same, changes no status
  final boolean not null default false,
  given_up boolean not null default false,         -- its message became a dead letter; redriven, it is sent again
  request json not null,
  result json,
  error text,
  hash text,
  upstream_id text collate "C",                    -- the target's id for it; null: not submitted
  upstream_url text,
  calls int not null default 0,                    -- that submit it
  sending_at timestamptz,                          -- since when the result of a call is unknown; null: of no call
  segment int,                                     -- the address of its latest message
  lane_id int,
  seq bigint,
  webhook_url text,                                -- where its changes are told
  created_at timestamptz not null default clock_timestamp(),
  updated_at timestamptz not null default clock_timestamp(),
  confirmed_at timestamptz
) with (fillfactor = 80);
create index gateway_transaction_age on laneway.gateway_transaction (created_at, transaction_id);
create index gateway_transaction_open on laneway.gateway_transaction (created_at, transaction_id) where not final;
create index gateway_transaction_submitted on laneway.gateway_transaction (updated_at)
  where not final and upstream_id is not null;
create index gateway_transaction_upstream on laneway.gateway_transaction (target, upstream_id)
  where upstream_id is not null;

-- Idempotency keys of requests, each of the caller who sent it.
create table laneway.gateway_key (
  owner text collate "C" not null,
  key text collate "C" not null,
  fingerprint bytea not null,                      -- of the request
  transaction_id uuid not null,
  created_at timestamptz not null default clock_timestamp(),
  primary key (owner, key)
);
create index gateway_key_age on laneway.gateway_key (created_at);

-- What all gateway processes know about a target.
create table laneway.gateway_target (
  name text collate "C" primary key,
  failures int not null default 0,                 -- in a row
  reason text,                                     -- of the last failure
  opened_at timestamptz,                           -- null: the breaker is closed
  probe_at timestamptz,                            -- open: when the next call may be tried
  tokens double precision,                         -- rate limit: calls that may start now …
  refilled_at timestamptz                          -- … as of this time
);

-- Calls that a process may have in progress at a target with a limit on concurrency.
create table laneway.gateway_slot (
  target text collate "C" not null,
  process uuid not null,
  calls int not null,
  expires_at timestamptz not null,
  primary key (target, process)
);

-- Webhook endpoints that fail.
create table laneway.gateway_endpoint (
  url text collate "C" primary key,
  failing_since timestamptz not null,
  disabled_at timestamptz,                         -- null: messages are still sent there
  reason text not null
);
