-- Pages of dead and archived messages are read in the order they were pushed in.
create index dead_letter_created on laneway.dead_letter (group_id, created_at);
create index archive_created on laneway.archive (group_id, created_at);
