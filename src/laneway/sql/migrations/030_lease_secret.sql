-- What the servers of this database make the tokens from that they return to consumers, so that nobody can compute the
-- token of another consumer's message. A dump takes it along.
alter table laneway.identity
  add column lease_secret bytea not null
    default sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
