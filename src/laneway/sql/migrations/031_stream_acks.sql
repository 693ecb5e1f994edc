alter table laneway.queue
  -- streams: an ack of one message of an ordered group does not ack those before it
  add column individual_acks boolean not null default false,
  -- a message whose lease expired waits for the backoff, as after a nack
  add column expiry_backoff boolean not null default true;

update laneway.queue
   set expiry_backoff = false
 where options -> 'queen' is not null;
