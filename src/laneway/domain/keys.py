"""API keys: their roles and the queues that they are limited to."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime


class Role(IntEnum):
    """What an API key may do; each role includes the one before."""

    READ = 1
    WRITE = 2
    ADMIN = 3

    def __str__(self) -> str:
        return self.name.lower()


class ApiKey(NamedTuple):
    """An API key as stored. pattern: the queues it is limited to, as a shell pattern; None: all.

    digest: SHA-256 of the whole key as a client sends it.
    """

    key_id: str
    name: str
    role: Role
    pattern: str | None
    digest: bytes
    created_at: datetime
    revoked_at: datetime | None
