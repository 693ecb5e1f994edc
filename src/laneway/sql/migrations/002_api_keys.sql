-- Keys that programs show to the server. Only a hash of each is kept; a revoked one stays, for the record.
create table laneway.api_key (
  key_id text primary key check (key_id <> ''),
  name text not null check (name <> ''),
  role text not null check (role in ('read', 'write', 'admin')),
  queue_pattern text check (queue_pattern <> ''),                     -- null: every queue
  hash bytea not null check (octet_length(hash) = 32),                -- SHA-256 of the whole key
  created_at timestamptz not null default clock_timestamp(),
  revoked_at timestamptz
);
