"""The calls about API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import Conflict, InvalidSetting, NotFound
from laneway.domain.keys import ApiKey, Role
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from laneway.engine.procedures.call import Connection


async def create_api_key(
    connection: Connection,
    *,
    key_id: str,
    name: str,
    role: Role,
    pattern: str | None,
    digest: bytes,
) -> None:
    await fetch_value(
        connection,
        "select laneway.create_api_key($1, $2, $3, $4, $5)",
        key_id,
        name,
        str(role),
        pattern,
        digest,
        means={"LW409": Conflict, "LW422": InvalidSetting},
    )


async def revoke_api_key(connection: Connection, key_id: str) -> None:
    await fetch_value(
        connection, "select laneway.revoke_api_key($1)", key_id, means={"LW404": NotFound}
    )


async def list_api_keys(connection: Connection, *, revoked: bool) -> list[ApiKey]:
    """Return the valid API keys; with `revoked`, also the revoked ones."""
    rows = await fetch(connection, "select * from laneway.list_api_keys($1)", revoked)
    return [
        ApiKey(
            key_id=row["key_id"],
            name=row["name"],
            role=Role[row["role"].upper()],
            pattern=row["queue_pattern"],
            digest=row["hash"],
            created_at=row["created_at"],
            revoked_at=row["revoked_at"],
        )
        for row in rows
    ]


async def lease_secret(connection: Connection) -> bytes:
    secret: bytes = await fetch_value(connection, "select laneway.lease_secret()")
    return secret
