"""Check for server, database and role settings that Laneway cannot work with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.sql.errors import ServerInRecovery, ServerReadOnly, ServerTooOld, TimeLimitTooShort

if TYPE_CHECKING:
    import asyncpg

OLDEST_SERVER = 15

# Calls may take this long. Milliseconds.
SHORTEST_LIMIT = 1000


def require_supported(connection: asyncpg.Connection) -> None:
    version = connection.get_server_version()
    if version.major < OLDEST_SERVER:
        raise ServerTooOld(f"{version.major}.{version.minor}", OLDEST_SERVER)


async def require_writable(connection: asyncpg.Connection) -> None:
    """Refuse settings that would make all calls fail; name their place and the SQL to change them.

    In a transaction: limits that are too short even for this are off until its end.
    """
    await connection.execute("set local statement_timeout = 0; set local lock_timeout = 0")
    if await connection.fetchval("select pg_catalog.pg_is_in_recovery()"):
        raise ServerInRecovery
    for row in await connection.fetch(_SETTINGS, SHORTEST_LIMIT):
        name, place = row["name"], row["place"]
        change = f"{row['alter']} reset {name};" if row["alter"] else None
        if name == "default_transaction_read_only":
            raise ServerReadOnly(place, change)
        raise TimeLimitTooShort(name, row["value"], place, change)


# The session's initial value and the place that sets it: the role in the database, the role, the database, all
# roles; else the configuration or the DSN. A session of the engine's own begins with limits that are off.
_SETTINGS = """
select s.name, s.reset_val || coalesce(s.unit, '') as value, o.alter,
       coalesce(o.place, 'in the configuration of the server, or by the DSN') as place
  from pg_catalog.pg_settings s
  left join lateral (
    select case when d.setrole <> 0 and d.setdatabase <> 0 then format('for the role "%s" in the database "%s"', current_user, current_database())
                when d.setrole <> 0 then format('for the role "%s"', current_user)
                when d.setdatabase <> 0 then format('for the database "%s"', current_database())
                else 'for all roles' end as place,
           case when d.setrole <> 0 and d.setdatabase <> 0 then format('alter role %I in database %I', current_user, current_database())
                when d.setrole <> 0 then format('alter role %I', current_user)
                when d.setdatabase <> 0 then format('alter database %I', current_database())
                else 'alter role all' end as alter
      from pg_catalog.pg_db_role_setting d
     where d.setrole in (0, (select r.oid from pg_catalog.pg_roles r where r.rolname = current_user))
       and d.setdatabase in (0, (select b.oid from pg_catalog.pg_database b where b.datname = current_database()))
       and exists (select from unnest(d.setconfig) c where starts_with(c, s.name || '='))
     order by d.setrole = 0, d.setdatabase = 0 limit 1) o on true
 where s.name = 'default_transaction_read_only' and s.reset_val = 'on'
    or s.name in ('statement_timeout', 'lock_timeout', 'transaction_timeout', 'idle_in_transaction_session_timeout')
       and s.reset_val::numeric > 0 and s.reset_val::numeric < $1
 order by s.name limit 1
"""
