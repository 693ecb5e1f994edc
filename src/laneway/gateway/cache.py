"""Caches of transactions: in this process, or in Redis, which all processes share.

A cache is never more than a shortcut: if it fails, it answers nothing for a while.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from laneway.domain.errors import InvalidSetting

if TYPE_CHECKING:
    from uuid import UUID

logger = logging.getLogger(__name__)

# How long a transaction that is final is kept, in seconds.
KEEP = 600
# How long one that may still change is kept: another process may change it without the cache.
KEEP_OPEN = 1
LARGEST = 10_000
TIMEOUT = 0.2
# How long Redis is left alone after an error, in seconds.
REST = 1.0


class Cache(Protocol):
    async def get(self, transaction_id: UUID) -> bytes | None:
        """Return the record of a transaction, None if it is not here."""

    async def put(self, transaction_id: UUID, record: bytes, *, final: bool) -> None:
        """Keep the record of a transaction."""

    async def drop(self, transaction_id: UUID) -> None:
        """Forget a transaction."""

    async def close(self) -> None: ...


class LocalCache:
    """Keeps final transactions in this process. It has no way to hear of changes of others."""

    def __init__(self) -> None:
        self._records: OrderedDict[UUID, tuple[float, bytes]] = OrderedDict()

    async def get(self, transaction_id: UUID) -> bytes | None:
        found = self._records.get(transaction_id)
        if found is None:
            return None
        until, record = found
        if monotonic() < until:
            return record
        del self._records[transaction_id]
        return None

    async def put(self, transaction_id: UUID, record: bytes, *, final: bool) -> None:
        if not final:
            return
        self._records[transaction_id] = (monotonic() + KEEP, record)
        self._records.move_to_end(transaction_id)
        if len(self._records) > LARGEST:
            self._records.popitem(last=False)

    async def drop(self, transaction_id: UUID) -> None:
        self._records.pop(transaction_id, None)

    async def close(self) -> None:
        self._records.clear()


class RedisCache:
    """Keeps transactions in Redis, under tx:ID."""

    def __init__(self, url: str) -> None:
        try:
            import redis.asyncio as client  # noqa: PLC0415 - an extra
            from redis.asyncio.retry import Retry  # noqa: PLC0415
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.exceptions import RedisError  # noqa: PLC0415
        except ImportError:
            raise InvalidSetting(
                "REDIS_URL is set, but the Redis client is not installed: run"
                " pip install 'laneway[redis]'"
            ) from None
        try:
            self._redis: Any = client.from_url(
                url,
                socket_timeout=TIMEOUT,
                socket_connect_timeout=TIMEOUT,
                retry=Retry(NoBackoff(), 0),
            )
        except ValueError as error:
            raise InvalidSetting(f"REDIS_URL is not the URL of a Redis server: {error}") from None
        self._errors = (RedisError, OSError)
        self._silent_until = 0.0
        self._failed = False

    async def get(self, transaction_id: UUID) -> bytes | None:
        found: bytes | None = await self._call("get", _name(transaction_id))
        return found

    async def put(self, transaction_id: UUID, record: bytes, *, final: bool) -> None:
        await self._call("set", _name(transaction_id), record, ex=KEEP if final else KEEP_OPEN)

    async def drop(self, transaction_id: UUID) -> None:
        await self._call("delete", _name(transaction_id))

    async def close(self) -> None:
        await self._redis.aclose()

    async def _call(self, name: str, *arguments: Any, **options: Any) -> Any:
        if monotonic() < self._silent_until:
            return None
        try:
            answer = await getattr(self._redis, name)(*arguments, **options)
        except self._errors as error:
            self._silent_until = monotonic() + REST
            if not self._failed:
                logger.warning("Redis is unreachable, transactions are read without it: %s", error)
            self._failed = True
            return None
        if self._failed:
            logger.info("Redis is reachable again")
            self._failed = False
        return answer


def open_cache(url: str | None) -> Cache:
    """Return the cache in Redis, or one in this process without a URL."""
    return LocalCache() if url is None else RedisCache(url)


def _name(transaction_id: UUID) -> str:
    return f"tx:{transaction_id}"
