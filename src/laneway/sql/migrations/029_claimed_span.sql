-- The result of every function that claims: one row per span of one lane.
-- The messages of a span have the sequence numbers first_seq, first_seq + 1, …, in the order of its arrays. An array
-- that would contain only nulls may be null.
create type laneway.claimed_span as (
  waiter int,                 -- from 0; messages beyond what this waiter asked for are for the waiters after it
  token uuid,                 -- the lease token; all spans of one waiter have the same
  segment int,
  lane_id int,
  first_seq bigint,
  partition text,
  priority smallint,
  attempt smallint,           -- of every message, unless `attempts` is given
  until timestamptz,          -- when the lease ends
  positions int[],            -- the rank of each message among all of the call; null: merge a waiter's spans by age
  attempts smallint[],        -- the attempt of each message, where they differ
  created_at timestamptz[],
  leases interval[],          -- the messages' own lease durations
  max_attempts smallint[],
  keys text[],
  headers json[],
  bodies json[],
  errors text[]);             -- why the previous attempt of each message failed

-- A message that a claim has picked but not yet leased (see claim_shared and insert_claims).
create type laneway.picked_message as (
  reader_id int,
  lane_id int,
  segment int,
  seq bigint,
  attempt smallint,           -- of the delivery that follows
  aside boolean,              -- delivered out of turn: it was parked
  lease interval,             -- its own lease duration
  error text);                -- why its previous attempt failed
