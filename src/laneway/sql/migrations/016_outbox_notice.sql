-- When the outbox's readers were told of something last, in milliseconds: a sequence, because it is the one thing that
-- transactions can share without waiting for each other.
create sequence laneway.outbox_notice minvalue 0 start 0;
