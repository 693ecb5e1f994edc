-- Which broker this is: what was made of one, such as a lake, is not to be mixed with another. A dump takes it along. One row.
create table laneway.identity (
  only_row boolean primary key default true check (only_row),
  id uuid not null default gen_random_uuid()
);
insert into laneway.identity default values;
