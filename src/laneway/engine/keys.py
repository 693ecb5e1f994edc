"""The broker's calls about API keys, and the secret of lease tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures import keys as procedures

if TYPE_CHECKING:
    from laneway.domain.keys import ApiKey, KeyInfo, Role
    from laneway.engine.core import Core


class Keys:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def create(
        self, key_id: str, *, name: str, role: Role, pattern: str | None, digest: bytes
    ) -> None:
        """Store an API key by its digest; the key itself is not stored."""
        async with self._core.pool.lend() as connection:
            await procedures.create_api_key(
                connection, key_id=key_id, name=name, role=role, pattern=pattern, digest=digest
            )

    async def revoke(self, key_id: str) -> None:
        async with self._core.pool.lend() as connection:
            await procedures.revoke_api_key(connection, key_id)

    async def describe(self, *, revoked: bool = False) -> list[KeyInfo]:
        """Return the valid API keys without their digests; with `revoked`, also the revoked ones."""
        return [key.info for key in await self.list_all(revoked=revoked)]

    async def list_all(self, *, revoked: bool = False) -> list[ApiKey]:
        """Return the valid API keys; with `revoked`, also the revoked ones."""
        async with self._core.pool.lend() as connection:
            return await procedures.list_api_keys(connection, revoked=revoked)

    async def read_lease_secret(self) -> bytes:
        """Return the 32 bytes from which all servers of the database make consumers' tokens."""
        async with self._core.pool.lend() as connection:
            return await procedures.lease_secret(connection)
