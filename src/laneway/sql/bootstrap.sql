-- What the installer itself needs: the schema and the record of what it has applied.
create schema if not exists laneway;

create table if not exists laneway.migration (
    version    integer     not null primary key,
    name       text        not null,
    checksum   text        not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on table laneway.migration is 'One row per applied migration file.';

create table if not exists laneway.routine (
    name       text        not null primary key,
    kind       text        not null check (kind in ('function', 'view')),
    checksum   text        not null,
    applied_at timestamptz not null default clock_timestamp()
);
comment on table laneway.routine is 'One row per installed function or view file.';
