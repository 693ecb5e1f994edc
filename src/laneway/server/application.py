"""The application: routes, authenticates and decodes requests, and sends the answers."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from time import perf_counter
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from laneway.domain.errors import InternalError, LanewayError
from laneway.server.calls import Call, Request, read_key
from laneway.server.compression import accepts_gzip, compress
from laneway.server.errors import ClientGone, Forbidden
from laneway.server.origins import Origins
from laneway.server.responses import Answer
from laneway.server.router import Router

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laneway.domain.keys import Role
    from laneway.server.calls import Identity
    from laneway.server.http import Exchange
    from laneway.server.operations import Surface
    from laneway.server.responses import Stream
    from laneway.server.router import Route
    from laneway.server.service import Service

logger = logging.getLogger(__name__)
access = logging.getLogger("laneway.access")

_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_EXPOSED = (b"access-control-expose-headers", b"X-Request-ID, Retry-After, Content-Disposition")
_LINE = b"%b: %b\r\n"
_HEAD = b"x-request-id: %b\r\n"
_CONTENT = b"content-type: %b\r\ncontent-length: %d\r\n"
NO_ANSWER = 0
_NO_CONTENT = 204
_SERVER_ERROR = 500


class Application:
    def __init__(self, service: Service, surfaces: Sequence[Surface]) -> None:
        self._service = service
        self._router = Router(surfaces)
        self._metrics = service.metrics
        service.routes = tuple(self._router.routes)
        self._metrics.name_routes(service.routes)
        self._limits = service.settings.limits
        self._origins = Origins(service.settings)
        rooms = service.rooms
        self._rooms = {"request": rooms.requests, "document": rooms.documents, "health": None}
        # Request ids of this process: a random prefix and a number.
        self._id_prefix = uuid4().hex[:12].encode() + b"-"
        self._id_number = 0

    async def __call__(self, exchange: Exchange) -> None:
        request = Request(exchange)
        request.request_id = self._name_request(request.headers)
        self._service.busy += 1
        status = NO_ANSWER
        try:
            answer = await self._answer(request)
            status = answer.status
            if isinstance(answer, Answer):
                await self._send(request, answer)
            else:
                await self._send_stream(request, answer)
        except ClientGone:
            pass
        finally:
            self._service.busy -= 1
            request.vacate()
            seconds = perf_counter() - request.began
            self._metrics.count_request(request.route, status, seconds)
            if access.isEnabledFor(logging.DEBUG):
                _log_access(request, status, seconds)

    @property
    def router(self) -> Router:
        return self._router

    def _name_request(self, headers: Mapping[bytes, bytes]) -> bytes:
        given = headers.get(b"x-request-id")
        if given is not None and _REQUEST_ID.fullmatch(given):
            return given
        self._id_number += 1
        return b"%b%x" % (self._id_prefix, self._id_number)

    async def _answer(self, request: Request) -> Answer | Stream:
        """Return the operation's answer, or an error in the format of its protocol."""
        try:
            if request.method == "OPTIONS":
                self._admit(request, safe=False)
                return self._answer_preflight(request)
            route, path = self._router.find(request.method, request.path, request.query)
            request.route = route
            self._admit(request, safe=route.safe)
            room = self._rooms[route.operation.kind]
            if room is not None:
                request.occupy(room)
            call = await self._prepare(request, route, path)
            return await route.operation.handler(call)
        except LanewayError as error:
            return self._explain(error, request)
        except Exception as error:
            logger.exception(
                "%s %s failed",
                request.method,
                request.path,
                extra={"request_id": request.request_id.decode()},
            )
            return self._explain(InternalError(type(error).__name__), request)

    def _admit(self, request: Request, *, safe: bool) -> None:
        """Refuse requests that a browser sends for a page which may not call."""
        keyless = not self._service.keyring.required
        self._origins.admit(request.method, request.headers, safe=safe, keyless=keyless)

    async def _prepare(
        self, request: Request, route: Route, path: Mapping[str, str]
    ) -> Call[Any, Any]:
        """Authenticate the caller, and decode the path, query and body."""
        operation = route.operation
        identity = await self._identify(request, operation.role)
        parameters = body = None
        if route.parameters is not None:
            parameters = route.parameters.decode(request.query, path)
        if route.body is not None:
            body = route.body.decode(await request.read(self._limits.body))
        call = Call(self._service, request, identity, parameters, body)
        if identity.pattern is not None and operation.role is not None:
            await operation.reach.require(call)
        return call

    async def _identify(self, request: Request, role: Role | None) -> Identity:
        keyring = self._service.keyring
        if role is None:
            return keyring.anonymous
        key = read_key(request.headers)
        identity = keyring.recall(key) or await keyring.identify(key)
        if identity.role < role:
            raise Forbidden(
                f'the key "{identity.name}" has the role {identity.role}: this requires {role}'
            )
        return identity

    async def _send(self, request: Request, answer: Answer) -> None:
        route = request.route
        if (
            len(answer.body) >= self._limits.compress_from
            and route is not None
            and route.operation.compress
            and accepts_gzip(request.headers)
        ):
            answer = await compress(answer)
        body = answer.body
        head = _HEAD % request.request_id
        if answer.status != _NO_CONTENT:
            head += _CONTENT % (answer.content_type, len(body))
        for header in self._write_cors(request):
            head += _LINE % header
        for header in answer.headers:
            head += _LINE % header
        if b"origin" in request.headers:
            head += _LINE % _EXPOSED
        await request.exchange.send(answer.status, head, body)

    async def _send_stream(self, request: Request, stream: Stream) -> None:
        """Send until the stream ends, the client disconnects, or the server stops it."""
        exchange = request.exchange

        async def forward() -> None:
            async for chunk in stream.chunks:
                await exchange.write(chunk)

        headers = [(b"content-type", stream.content_type), (b"x-request-id", request.request_id)]
        headers += [*self._write_cors(request), _EXPOSED, *stream.headers]
        # The headers go out now: the first part of the body may come much later.
        await exchange.start(stream.status, b"".join([_LINE % header for header in headers]))
        if request.method == "HEAD":
            if isinstance(stream.chunks, AsyncGenerator):
                await stream.chunks.aclose()
            await exchange.end()
            return
        tasks = [
            asyncio.ensure_future(forward()),
            asyncio.ensure_future(exchange.wait_until_lost()),
        ]
        if stream.endless:
            tasks.append(asyncio.ensure_future(_wait(self._service.stopping)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[0].done():
                tasks[0].result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if isinstance(stream.chunks, AsyncGenerator):
                await stream.chunks.aclose()
        await exchange.end()

    def _write_cors(self, request: Request) -> tuple[tuple[bytes, bytes], ...]:
        keyless = not self._service.keyring.required
        return self._origins.write_headers(request.headers, keyless=keyless)

    def _answer_preflight(self, request: Request) -> Answer:
        wanted = request.headers.get(
            b"access-control-request-headers", b"Content-Type, X-API-KEY, X-Request-ID"
        )
        methods = self._router.list_methods(request.path) or ["GET", "POST", "PUT", "DELETE"]
        return Answer(
            204,
            headers=(
                (b"access-control-allow-methods", ", ".join([*methods, "OPTIONS"]).encode()),
                (b"access-control-allow-headers", wanted),
                (b"access-control-max-age", b"86400"),
            ),
        )

    def _explain(self, error: LanewayError, request: Request) -> Answer:
        if isinstance(error, ClientGone):
            raise error
        route = request.route
        path = request.path
        surface = route.surface if route is not None else self._router.find_surface(path)
        if surface.tell is not None:
            answer = surface.tell(error, request)
        else:
            answer = surface.explain(error)
        if answer.status == _SERVER_ERROR:
            extra = {"request_id": request.request_id.decode()}
            logger.error("%s %s: %s", request.method, path, error, extra=extra)
        return answer


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


def _log_access(request: Request, status: int, seconds: float) -> None:
    access.debug(
        "%s %s",
        request.method,
        request.path,
        extra={
            "request_id": request.request_id.decode(),
            "status": status,
            "milliseconds": round(seconds * 1000, 3),
        },
    )
