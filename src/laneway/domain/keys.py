"""API keys: their roles and the queues that they are limited to."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime
from enum import IntEnum
from typing import NamedTuple

# The format of a key: "lw_", eight hex digits that name it, "_", and the secret.
PREFIX = "lw"


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

    @property
    def info(self) -> KeyInfo:
        return KeyInfo(
            self.key_id, self.name, self.role, self.pattern, self.created_at, self.revoked_at
        )


class KeyInfo(NamedTuple):
    """An API key without its digest, with which SQS clients sign."""

    key_id: str
    name: str
    role: Role
    pattern: str | None
    created_at: datetime
    revoked_at: datetime | None


class NewKey(NamedTuple):
    """An API key to store; `text` is shown once and never stored."""

    key_id: str
    text: str
    digest: bytes

    @property
    def sqs_access_key_id(self) -> str:
        return f"{PREFIX}_{self.key_id}"

    @property
    def sqs_secret_access_key(self) -> str:
        """The secret that SQS clients sign with: the server has only the digest to check it with."""
        return self.digest.hex()


def make_key() -> NewKey:
    key_id = secrets.token_hex(4)
    text = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
    return NewKey(key_id, text, digest_key(text.encode()))


def digest_key(key: bytes) -> bytes:
    # A key is 256 random bits, so one round of a fast hash is as safe as many.
    return hashlib.sha256(key).digest()
