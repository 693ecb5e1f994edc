"""Who may call: the server's secret, and keys that are kept in the database as hashes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import LanewayError
from laneway.domain.keys import Role
from laneway.server.calls import Identity
from laneway.server.errors import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence, Sized
    from datetime import timedelta

    from laneway.domain.keys import ApiKey
    from laneway.server.calls import Caller
    from laneway.server.tokens import Tokens

logger = logging.getLogger(__name__)

# The keys are looked up anew after this share of the time they are good for: no request waits for it.
_EARLY = 2 / 3

# What a key looks like: "lw_", eight hex digits that name it, "_", and the secret.
PREFIX = "lw"
_MARK = f"{PREFIX}_".encode()

# A signed token is three parts with dots between; a key has none.
TOKEN_DOTS = 2
# Seconds between two searches for an unknown key, which may be new or wrong.
_SEARCH_PAUSE = 0.5
# The id of the server's own secret where keys are called by ids.
OWNER = "SECRET_KEY"


class NewKey(NamedTuple):
    """A key to be stored; `text` is shown once and kept nowhere."""

    key_id: str
    text: str
    digest: bytes


def make_key() -> NewKey:
    key_id = secrets.token_hex(4)
    text = f"{PREFIX}_{key_id}_{secrets.token_urlsafe(32)}"
    return NewKey(key_id, text, digest_key(text.encode()))


def digest_key(key: bytes) -> bytes:
    # A key is 256 random bits, so one round of a quick hash keeps it as safe as many would.
    return hashlib.sha256(key).digest()


class Credential(NamedTuple):
    """What a signature is made with, and who makes it."""

    secret: str
    identity: Identity


class Watch(NamedTuple):
    """A caller with an open connection or a waiting call; `end` ends it."""

    caller: Caller
    end: Callable[[], None]


class Keyring:
    """Knows the keys in force, as they were at most `age` ago.

    load returns all keys, those revoked too. tokens: checks signed tokens, which count beside keys. Until there is a secret or a key, everybody is let in;
    a key that is revoked locks the door still, unless `insecure`. While the database is away, the
    keys known last count.
    """

    def __init__(
        self,
        *,
        secret: str | None,
        load: Callable[[], Awaitable[Sequence[ApiKey]]],
        age: timedelta,
        insecure: bool = False,
        tokens: Tokens | None = None,
    ) -> None:
        self._secret = digest_key(secret.encode()) if secret else None
        self._load = load
        self._age = age.total_seconds()
        self._insecure = insecure
        self._keys: dict[str, ApiKey] = {}
        self._tokens = tokens
        self._locked = self._secret is not None or tokens is not None
        self._fresh_until = float("-inf")
        self._next_search = float("-inf")
        self._known = False
        self._loading: asyncio.Task[None] | None = None
        # Keys found good already, by what the client sent, until the next look at the database.
        self._accepted: dict[bytes, Identity] = {}
        self._watches: dict[int, Watch] = {}
        self._anyone = Identity("anyone", Role.ADMIN)
        self._owner = Identity("SECRET_KEY", Role.ADMIN)
        self.nobody = Identity("nobody", Role.READ)

    @property
    def required(self) -> bool:
        return self._locked

    def recall(self, key: bytes | None) -> Identity | None:
        """Return who sent the key, if that is known without looking anything up."""
        if monotonic() > self._fresh_until:
            return None
        if not self.required:
            return self._anyone
        if not key:
            return None
        accepted = self._accepted.get(key)
        if accepted is None and self._tokens is not None:
            return self._tokens.recall(key)
        return accepted

    async def identify(self, key: bytes | None) -> Identity:
        """Return who sent the key; the keys are looked up first if they were not lately."""
        await self.refresh_if_stale()
        if not self.required:
            return self._anyone
        if not key:
            raise Unauthenticated("Missing X-API-KEY header")
        try:
            return self._find(key)
        except Unauthenticated:
            if not self._may_be_new(key):
                raise
        await self.refresh()
        return self._find(key)

    def _may_be_new(self, key: bytes) -> bool:
        """Return whether to read the keys again for an unknown one, at most twice a second."""
        if not key.startswith(_MARK) or monotonic() < self._next_search:
            return False
        self._next_search = monotonic() + _SEARCH_PAUSE
        return True

    def _find(self, key: bytes) -> Identity:
        """Return who has the key, according to the last refresh."""
        if self._tokens is not None and key.count(b".") == TOKEN_DOTS:
            return self._tokens.recall(key) or self._tokens.verify(key)
        identity = self._accepted.get(key) or self._verify(key)
        if identity is None:
            raise Unauthenticated("Invalid API key")
        self._accepted[key] = identity
        return identity

    def find_secret(self, access_key: str) -> Credential | None:
        """Return what the owner of a key signs with, by the id that the key begins with.

        The server knows only keys' digests, so a digest is what is signed with.
        """
        if access_key == OWNER and self._secret is not None:
            return Credential(self._secret.hex(), self._owner)
        stored = self._keys.get(access_key.removeprefix(f"{PREFIX}_"))
        if stored is None:
            return None
        identity = Identity(stored.name, stored.role, stored.pattern)
        return Credential(stored.digest.hex(), identity)

    @contextmanager
    def watch(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` when a refresh finds that the caller is not let in as before any more."""
        watch = Watch(caller, end)
        self._watches[id(watch)] = watch
        try:
            yield
        finally:
            del self._watches[id(watch)]

    async def follow(self) -> None:
        """Look the keys up before they are too old; each refresh ends what revoked keys have open."""
        while True:
            await asyncio.sleep(self._age * _EARLY)
            try:
                await self.refresh()
            except LanewayError as error:
                logger.debug("the keys could not be looked up: %s", error)

    def is_valid(self, caller: Caller) -> bool:
        """Return whether the caller would be let in as before, according to the last refresh."""
        if not self.required:
            return True
        found = self._find_again(caller)
        if found is None:
            return False
        known = caller.identity
        if known is self._anyone:
            # Let in before a key was required, with one that may do the same.
            return found.role >= Role.WRITE and found.pattern is None
        return (found.name, found.role, found.pattern) == (known.name, known.role, known.pattern)

    def _find_again(self, caller: Caller) -> Identity | None:
        if caller.access_key is not None:
            credential = self.find_secret(caller.access_key)
            return None if credential is None else credential.identity
        if not caller.key:
            return None
        try:
            return self._find(caller.key)
        except Unauthenticated:
            return None

    def _end_invalid(self) -> None:
        for watch in list(self._watches.values()):
            if not self.is_valid(watch.caller):
                watch.end()

    async def refresh_if_stale(self) -> None:
        if monotonic() > self._fresh_until:
            await self.refresh()

    async def refresh(self) -> None:
        """Look the keys up, once for all who want to know at the same time."""
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._refresh())
            self._loading.add_done_callback(self._loaded)
        await asyncio.shield(self._loading)

    def _loaded(self, _: asyncio.Task[None]) -> None:
        self._loading = None

    async def _refresh(self) -> None:
        try:
            keys = await self._load()
        except LanewayError:
            if not self._known:
                raise
            # Tokens expire without the database.
            self._end_invalid()
            return
        self._keys = {key.key_id: key for key in keys if key.revoked_at is None}
        counting: Sized = self._keys if self._insecure else keys
        unlocked = self._secret is None and self._tokens is None
        self._locked = not unlocked or len(counting) > 0
        self._accepted.clear()
        self._known = True
        self._fresh_until = monotonic() + self._age
        # Before any request is refused by these keys.
        self._end_invalid()

    def _verify(self, key: bytes) -> Identity | None:
        """Compare in constant time, whether there is such a key or not."""
        digest = digest_key(key)
        if self._secret is not None and hmac.compare_digest(digest, self._secret):
            return self._owner
        parts = key.split(b"_", 2)
        stored = self._keys.get(parts[1].decode("latin-1")) if len(parts) > 1 else None
        expected = stored.digest if stored is not None else bytes(len(digest))
        if not hmac.compare_digest(digest, expected) or stored is None:
            return None
        return Identity(stored.name, stored.role, stored.pattern)
