"""Who may call: the server's secret, and API keys, which the database stores as hashes."""

from __future__ import annotations

import asyncio
import hmac
import logging
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import LanewayError
from laneway.domain.keys import PREFIX, Role, digest_key
from laneway.server.calls import Identity
from laneway.server.errors import Unauthenticated

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence, Sized
    from datetime import timedelta

    from laneway.domain.keys import ApiKey
    from laneway.server.calls import Caller
    from laneway.server.tokens import Tokens

logger = logging.getLogger(__name__)

# Keys are refreshed after this share of their maximum age, so that no request waits for it.
_EARLY = 2 / 3

_MARK = f"{PREFIX}_".encode()

# A signed token is three parts with dots between them; an API key has no dots.
TOKEN_DOTS = 2
# Seconds between two refreshes for an unknown key, which may be new or wrong.
_SEARCH_PAUSE = 0.5
# The id of the server's own secret, where clients name keys by their ids.
OWNER = "SECRET_KEY"


class Credential(NamedTuple):
    """The secret that a signature is made with, and the identity that it proves."""

    secret: str
    identity: Identity


class Watch(NamedTuple):
    """A caller with an open connection or a waiting call; `end` ends it."""

    caller: Caller
    end: Callable[[], None]


class Keyring:
    """The valid API keys, as they were at most `age` ago.

    load returns all keys, revoked ones too. tokens: checks signed tokens, which are accepted like
    keys. Without a secret and any key, every caller is admitted. Revoked keys count as keys here,
    unless `insecure`. While the database is unreachable, the keys of the last refresh apply.
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
        # Identities by the key that a client sent, until the next refresh.
        self._accepted: dict[bytes, Identity] = {}
        self._watches: dict[int, Watch] = {}
        self._anyone = Identity("anyone", Role.ADMIN)
        self._owner = Identity("SECRET_KEY", Role.ADMIN)
        self.anonymous = Identity("nobody", Role.READ)

    @property
    def required(self) -> bool:
        return self._locked

    def recall(self, key: bytes | None) -> Identity | None:
        """Return the identity of a key that was verified since the last refresh, else None."""
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
        """Return the identity of a key, after a refresh if the last one is too old."""
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
        """Return whether to refresh for an unknown key: at most twice a second."""
        if not key.startswith(_MARK) or monotonic() < self._next_search:
            return False
        self._next_search = monotonic() + _SEARCH_PAUSE
        return True

    def _find(self, key: bytes) -> Identity:
        """Return the identity of a key, according to the last refresh."""
        if self._tokens is not None and key.count(b".") == TOKEN_DOTS:
            return self._tokens.recall(key) or self._tokens.verify(key)
        identity = self._accepted.get(key) or self._verify(key)
        if identity is None:
            raise Unauthenticated("Invalid API key")
        self._accepted[key] = identity
        return identity

    async def find_secret(self, access_key: str) -> Credential | None:
        """Return the credential that the key with this id signs with, after a refresh for a new one.

        The server stores only digests of keys, so clients sign with the digest.
        """
        await self.refresh_if_stale()
        found = self._find_secret(access_key)
        if found is None and self._may_be_new(access_key.encode()):
            await self.refresh()
            found = self._find_secret(access_key)
        return found

    def _find_secret(self, access_key: str) -> Credential | None:
        """Return the credential, according to the last refresh."""
        if access_key == OWNER and self._secret is not None:
            return Credential(self._secret.hex(), self._owner)
        stored = self._keys.get(access_key.removeprefix(f"{PREFIX}_"))
        if stored is None:
            return None
        identity = Identity(stored.name, stored.role, stored.pattern)
        return Credential(stored.digest.hex(), identity)

    @contextmanager
    def watch(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` when a refresh finds that the caller has lost its access."""
        watch = Watch(caller, end)
        self._watches[id(watch)] = watch
        try:
            yield
        finally:
            del self._watches[id(watch)]

    async def follow(self) -> None:
        """Refresh the keys before they are too old, and close what revoked keys have open."""
        while True:
            await asyncio.sleep(self._age * _EARLY)
            try:
                await self.refresh()
            except LanewayError as error:
                logger.debug("cannot refresh the API keys, retrying: %s", error)

    def is_valid(self, caller: Caller) -> bool:
        """Return whether the caller still has the same access, according to the last refresh."""
        if not self.required:
            return True
        found = self._find_again(caller)
        if found is None:
            return False
        known = caller.identity
        if known is self._anyone:
            # Admitted before a key was required, with a key that allows the same.
            return found.role >= Role.WRITE and found.pattern is None
        return (found.name, found.role, found.pattern) == (known.name, known.role, known.pattern)

    def _find_again(self, caller: Caller) -> Identity | None:
        if caller.access_key is not None:
            credential = self._find_secret(caller.access_key)
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
        """Load the keys; concurrent callers share one query."""
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
        # Before these keys refuse any request.
        self._end_invalid()

    def _verify(self, key: bytes) -> Identity | None:
        """Compare in constant time, also for a key that does not exist."""
        digest = digest_key(key)
        if self._secret is not None and hmac.compare_digest(digest, self._secret):
            return self._owner
        parts = key.split(b"_", 2)
        stored = self._keys.get(parts[1].decode("latin-1")) if len(parts) > 1 else None
        expected = stored.digest if stored is not None else bytes(len(digest))
        if not hmac.compare_digest(digest, expected) or stored is None:
            return None
        return Identity(stored.name, stored.role, stored.pattern)
