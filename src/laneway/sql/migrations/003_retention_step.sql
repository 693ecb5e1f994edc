-- A queue with a retention of its own may be shortened in steps: what is past retention leaves when the whole step
-- it lies in is past it, like the partitions of a partitioned table.
alter table laneway.queue add column retention_step interval
  check (retention_step > interval '0' and extract(year from retention_step) = 0 and extract(month from retention_step) = 0);
alter table laneway.queue add constraint retention_step_needs_retention check (retention_step is null or retention is not null);
