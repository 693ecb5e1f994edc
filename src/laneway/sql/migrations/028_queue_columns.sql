-- Settings of queues that functions obey, and that were read from the options of the protocols until now, as columns.
alter table laneway.queue
  -- unfinished messages; null: no limit
  add column max_messages bigint check (max_messages > 0),
  -- an ordered lane waits this long after a push
  add column rest_window interval check (rest_window > interval '0'),
  -- messages that are ready for longer are dead-lettered
  add column dead_letter_after interval check (dead_letter_after > interval '0'),
  add column keep_dead_letters boolean not null default true,
  -- null: dead letters stay in their queue
  add column dead_letter_queue text,
  -- what redriven letters name as their source; null: the queue's name
  add column dead_letter_source text,
  -- attempts that consumers saw; null: all of them
  add column max_receives int check (max_receives > 0),
  -- the server encrypts the bodies of new messages
  add column encrypted boolean not null default false,
  -- the default group counts only if it is the only group, or was read with
  add column default_group_optional boolean not null default false;

update laneway.queue q set
  max_messages = nullif((q.options -> 'queen' ->> 'maxSize')::bigint, 0),
  rest_window = nullif(make_interval(secs => (q.options -> 'queen' ->> 'windowBuffer')::float8), interval '0'),
  dead_letter_after = nullif(
    make_interval(secs => (q.options -> 'queen' ->> 'maxWaitTimeSeconds')::float8), interval '0'),
  keep_dead_letters = coalesce((q.options -> 'queen' ->> 'deadLetterQueue')::boolean, true),
  dead_letter_queue = q.options #>> '{sqs,dead_letter_queue}',
  dead_letter_source = q.options #>> '{sqs,arn}',
  max_receives = (q.options #>> '{sqs,most_receives}')::int,
  encrypted = coalesce(q.options -> 'queen' ->> 'encryptionEnabled' = 'true', false),
  default_group_optional = q.options -> 'queen' is not null
 where q.options -> 'queen' is not null or q.options -> 'sqs' is not null;

-- What the streams protocol was asked for stays among its options, because it answers with the very values.
update laneway.queue q
   set options = (q.options::jsonb #- '{sqs,dead_letter_queue}' #- '{sqs,arn}' #- '{sqs,most_receives}')::json
 where json_typeof(q.options -> 'sqs') = 'object';

drop index laneway.queue_redrive;
create index queue_redrive on laneway.queue (dead_letter_queue) where dead_letter_queue is not null;

-- Which of these settings a push has to heed, as bits: 1 encrypted, 2 max_messages, 4 rest_window. A push says which it
-- assumes, and is refused where the queue has others, so that none goes by settings read earlier.
alter table laneway.queue drop column guards;
alter table laneway.queue add column guards smallint not null generated always as ((
  case when encrypted then 1 else 0 end
  + case when max_messages is not null then 2 else 0 end
  + case when rest_window is not null then 4 else 0 end)::smallint) stored;
