-- Has its row until a crash of PostgreSQL empties it, and the UNLOGGED segments with it: see recover_unlogged.
create unlogged table laneway.intact (
  only_row boolean primary key default true check (only_row)
);
insert into laneway.intact default values;
