"""The HTTP backend of the library: each call is one request to a server."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import msgspec

from laneway.client.http import HttpClient
from laneway.client.wire import PREFIX, Failure, list_shapes, restore
from laneway.domain.errors import Misconfigured, Unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from laneway.client.wire import Shape
    from laneway.domain.settings import ConnectionSettings

_OK = 200
_UNAUTHENTICATED = 401
_NOT_FOUND = 404
_encode = msgspec.json.Encoder().encode
_decode_failure = msgspec.json.Decoder(Failure).decode

# Longer polls are split into several, so that a connection that died silently is noticed.
_LONGEST_WAIT = timedelta(seconds=60)


class HttpBackend:
    """The calls of `Backend`, sent to the server at `url`."""

    def __init__(self, url: str, *, api_key: str | None, settings: ConnectionSettings) -> None:
        self._client = HttpClient(
            url,
            api_key=api_key,
            connect_timeout=settings.connect_timeout,
            connections=max(settings.size, 1),
        )
        self._patience = settings.call_timeout.total_seconds()
        for shape in list_shapes().values():
            section, _, name = shape.method.rpartition(".")
            if section and not hasattr(self, section):
                setattr(self, section, SimpleNamespace())
            setattr(getattr(self, section) if section else self, name, self._bind(shape))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close()

    def _bind(self, shape: Shape) -> Callable[..., Awaitable[Any]]:
        decode = msgspec.json.Decoder(shape.answer).decode
        path = f"{PREFIX}/{shape.name}"
        fields = shape.request.__struct_fields__
        turn = shape.turn

        async def call(*arguments: Any, **options: Any) -> Any:
            options.update(zip(fields, arguments, strict=False))
            wait = options.get("wait") or timedelta(0)
            if wait > _LONGEST_WAIT:
                return await self._wait_in_parts(call, options, wait)
            try:
                response = await self._client.post(
                    path,
                    _encode(options),
                    patience=self._patience + wait.total_seconds(),
                    waits=bool(wait),
                )
            except Unavailable:
                if wait and self._client.closed:
                    # As a broker in this process does when it is closed while a caller waits.
                    return []
                raise
            if response.status != _OK:
                raise self._explain(response.status, response.body)
            value = decode(response.body)
            return value if turn is None else turn(value)

        call.__name__ = shape.name
        return call

    async def _wait_in_parts(
        self, call: Callable[..., Awaitable[Any]], options: dict[str, Any], wait: timedelta
    ) -> Any:
        loop = asyncio.get_running_loop()
        end = loop.time() + wait.total_seconds()
        while True:
            # In seconds until shortened: the longest timedelta would overflow by rounding.
            left = min(max(end - loop.time(), 0), _LONGEST_WAIT.total_seconds())
            found = await call(**{**options, "wait": timedelta(seconds=left)})
            if found or not left or self._client.closed:
                return found

    def _explain(self, status: int, body: bytes) -> Exception:
        try:
            failure = _decode_failure(body)
            if status == _UNAUTHENTICATED:
                failure.message += (
                    ": pass an API key to connect as api_key=, or to the command as --api-key or"
                    " LANEWAY_API_KEY"
                )
            return restore(failure)
        except msgspec.DecodeError:
            what = "does not know this call" if status == _NOT_FOUND else f"answered {status}"
            return Misconfigured(
                f"the server {what}: check that the URL is that of a Laneway server of this version"
            )
