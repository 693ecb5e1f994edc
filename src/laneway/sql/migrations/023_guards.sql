-- Which of a stream's options a push has to heed, as bits: 1 encryptionEnabled, 2 maxSize, 4 windowBuffer. A push says which it
-- reckons with, and is refused where the queue has others: so nobody goes by what it remembers of a queue.
alter table laneway.queue add column guards smallint not null generated always as ((
  case when options -> 'queen' ->> 'encryptionEnabled' = 'true' then 1 else 0 end
  + case when options -> 'queen' ->> 'maxSize' <> '0' then 2 else 0 end
  + case when options -> 'queen' ->> 'windowBuffer' <> '0' then 4 else 0 end)::smallint) stored;
