"""One request on its way through an operation."""

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
    """Who calls.

    pattern: the queues the key is limited to, as a shell pattern; None: all. subject: whom a signed
    token names.
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
    """Who was let in, and by what: the key or token sent, or the id of the key that signed."""

    identity: Identity
    key: bytes | None
    access_key: str | None = None


def read_key(headers: Mapping[bytes, bytes]) -> bytes | None:
    """Return the key a client sent, as X-API-KEY or as the bearer of a token."""
    key = headers.get(b"x-api-key")
    if key is None:
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        key = token.strip() if scheme.lower() == b"bearer" else None
    return key


class Request:
    """A request as it came in, on its way to an operation.

    path: decoded, but for slashes within its parts. headers: the last one of each name.
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
        # Where it counts among those under way.
        self.room: Room | None = None

    def occupy(self, room: Room) -> None:
        """Count as one of another kind from now on; raises ServerBusy where there are too many."""
        room.enter()
        self.vacate()
        self.room = room

    def vacate(self) -> None:
        if self.room is not None:
            self.room.leave()
            self.room = None

    async def read(self, limit: int) -> bytes:
        """Return the whole body; how long that may take is up to the connection's guard."""
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
    """A request, decoded: `parameters` from path and query, `body` from the body."""

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
        """Tell without waiting whether the client has gone."""
        return self.request.is_gone()

    async def read(self) -> bytes:
        """Return the body of an operation that decodes it itself, within the server's limit."""
        return await self.request.read(self.settings.limits.body)

    def leave(self) -> NoReturn:
        """End the call without an answer: nobody is there for it."""
        raise ClientGone("the client went away")

    async def attend(
        self, work: Coroutine[Any, Any, T], *, otherwise: T, caller: Caller | None = None
    ) -> T:
        """Return what a long wait brings, or `otherwise` once the server stops.

        caller: of a protocol that authenticates by itself. The work is cancelled when the client
        goes (ClientGone) and when the caller's key or token is not valid any more
        (Unauthenticated). Where too many wait, ServerBusy is raised.
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
                # It was let in before, and is about to be answered.
                place.used += 1
                self.request.room = place

    def _explain_end(self, wait: Wait) -> None:
        """Raise what a wait that ended early is answered with; nothing where the server stops."""
        if wait.reason is Reason.LEFT:
            self.leave()
        if wait.reason is Reason.REVOKED:
            raise _refuse_wait() from None


def _refuse_wait() -> Unauthenticated:
    return Unauthenticated(
        "the API key or token is not valid any more: the wait ended, and nothing was claimed. "
        "Call again with a valid one"
    )
