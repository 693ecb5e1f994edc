"""One request, from its arrival to its operation."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn

from laneway.server.errors import BodyTooLarge, ClientGone, ServerBusy, Unauthenticated
from laneway.server.long_polls import Reason, Wait
from laneway.server.operations import B, P
from laneway.server.router import read_path

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from typing import TypeVar

    from laneway.engine import Broker
    from laneway.server.http import Exchange
    from laneway.server.operations import Role
    from laneway.server.request_limits import Room
    from laneway.server.router import Route
    from laneway.server.service import Service
    from laneway.server.settings import ServerSettings

    T = TypeVar("T")


class Identity:
    """The caller: the name and rights of its API key or token.

    pattern: the queues that the key is limited to, as a shell pattern; None: all. subject: the
    subject of a signed token.
    """

    __slots__ = ("name", "pattern", "role", "subject")

    def __init__(
        self, name: str, role: Role, pattern: str | None = None, subject: str | None = None
    ) -> None:
        self.name = name
        self.role = role
        self.pattern = pattern
        self.subject = subject

    def may_use(self, queue: str) -> bool:
        return self.pattern is None or fnmatchcase(queue, self.pattern)


class Caller(NamedTuple):
    """An authenticated caller: its identity, and the key, token or key id that it sent."""

    identity: Identity
    key: bytes | None
    access_key: str | None = None


def read_key(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the key that a client sent, as X-API-KEY or as a bearer token."""
    key = headers.get(b"x-api-key")
    if key is None:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        key = token.strip() if scheme.lower() == b"bearer" else None
    return key


class Request:
    """A request as it arrived.

    path: decoded, except slashes within its parts. headers: the last one of each name.
    """

    __slots__ = (
        "began",
        "exchange",
        "headers",
        "method",
        "path",
        "query",
        "request_id",
        "room",
        "route",
    )

    def __init__(self, exchange: Exchange) -> None:
        self.began = perf_counter()
        self.exchange = exchange
        self.method = exchange.method
        path = exchange.path
        self.path = read_path(path) if "%" in path else path
        self.query = exchange.query
        self.headers = dict(exchange.headers)
        self.request_id = b""
        self.route: Route | None = None
        # The limit that it counts against.
        self.room: Room | None = None

    def occupy(self, room: Room) -> None:
        """Count against another limit from now on; raises ServerBusy if that limit is reached."""
        room.enter()
        self.vacate()
        self.room = room

    def vacate(self) -> None:
        if self.room is not None:
            self.room.leave()
            self.room = None

    async def read(self, limit: int) -> bytes:
        """Return the whole body; the connection's guard limits the time that takes."""
        length = self.headers.get(b"content-length")
        if length is not None and int(length) > limit:
            raise BodyTooLarge(limit)
        exchange = self.exchange
        body = await exchange.read()
        if not exchange.received:
            parts = [body]
            size = len(body)
            while size <= limit and (part := await exchange.read()):
                parts.append(part)
                size += len(part)
            body = b"".join(parts)
        if len(body) > limit:
            raise BodyTooLarge(limit)
        return body

    def is_gone(self) -> bool:
        """Tell without waiting whether the client has gone."""
        return self.exchange.is_gone()


class Call(Generic[P, B]):
    """A decoded request: `parameters` from path and query, `body` from the body."""

    __slots__ = ("body", "identity", "parameters", "request", "service")

    def __init__(
        self, service: Service, request: Request, identity: Identity, parameters: P, body: B
    ) -> None:
        self.service = service
        self.request = request
        self.identity = identity
        self.parameters = parameters
        self.body = body

    @property
    def broker(self) -> Broker:
        return self.service.broker

    @property
    def settings(self) -> ServerSettings:
        return self.service.settings

    def is_gone(self) -> bool:
        """Return whether the client has disconnected, without waiting."""
        return self.request.is_gone()

    async def read(self) -> bytes:
        """Return the body for an operation that decodes it itself, within the server's limit."""
        return await self.request.read(self.settings.limits.body)

    def leave(self) -> NoReturn:
        """End the call without an answer: the client has disconnected."""
        raise ClientGone("the client disconnected")

    async def attend(
        self, work: Coroutine[Any, Any, T], *, otherwise: T, caller: Caller | None = None
    ) -> T:
        """Return the result of a long wait, or `otherwise` once the server stops.

        caller: given by protocols that authenticate callers themselves. The work is cancelled when
        the client disconnects (ClientGone) and when the caller's key or token becomes invalid
        (Unauthenticated). ServerBusy is raised if too many requests wait.
        """
        if self.is_gone():
            work.close()
            self.leave()
        keyring = self.service.keyring
        if caller is None:
            caller = Caller(self.identity, read_key(self.request.headers))
        if not keyring.is_valid(caller):
            work.close()
            raise _refuse_wait()
        if self.service.stopping.is_set():
            work.close()
            return otherwise
        place = self.request.room
        try:
            self.request.occupy(self.service.rooms.waits)
        except ServerBusy:
            work.close()
            raise
        wait = Wait()
        self.request.exchange.on_lost = wait.leave
        self.service.waits[wait] = None
        try:
            with keyring.watch(caller, wait.revoke):
                return await work
        except asyncio.CancelledError:
            if not wait.ended:
                raise
            self._explain_end(wait)
            return otherwise
        finally:
            wait.close()
            self.request.exchange.on_lost = None
            del self.service.waits[wait]
            self.request.vacate()
            if place is not None:
                # The request was admitted before and is about to be answered, so the limit does not
                # apply.
                place.used += 1
                self.request.room = place

    def _explain_end(self, wait: Wait) -> None:
        """Raise the error of a wait that ended early; nothing if the server stops."""
        if wait.reason is Reason.LEFT:
            self.leave()
        if wait.reason is Reason.REVOKED:
            raise _refuse_wait() from None


def _refuse_wait() -> Unauthenticated:
    return Unauthenticated(
        "the API key or token is no longer valid: the wait ended and nothing was claimed. "
        "Call again with a valid one"
    )
