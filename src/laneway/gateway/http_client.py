"""Outgoing HTTP calls, only to addresses that are allowed.

A host name may stand for other addresses a moment after it was checked, so the address is checked
where the socket is made that connects to it.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import urlsplit

import aiohttp

from laneway.domain.errors import InvalidSetting
from laneway.gateway.calls import (
    AddressRefused,
    BadAnswer,
    HttpResponse,
    TimedOut,
    Unreachable,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from ipaddress import IPv4Network, IPv6Network
    from types import SimpleNamespace

    from laneway.gateway.calls import HttpRequest

    Network: TypeAlias = IPv4Network | IPv6Network

# The longest answer that is read, in bytes.
LONGEST_ANSWER = 1024 * 1024
# An idle connection is closed after this many seconds, before most servers do it.
KEEP_IDLE = 4.0
_CHUNK = 65_536
_TRANSLATED = ip_network("64:ff9b::/96")


class _Refused(OSError):
    """The address of a host is not allowed."""


class _Disconnected(OSError):
    """The connection was lost, and the call is not repeated."""


@dataclass(slots=True)
class _Progress:
    """What is known of a call. sent: the target may have received the request."""

    sent: bool = False
    refused: str | None = None


class Guard:
    """Allows public addresses, and those of some private networks."""

    def __init__(self, private: Iterable[str] = ()) -> None:
        """Raise InvalidSetting if a network is not one."""
        self._private: list[Network] = []
        for text in private:
            try:
                self._private.append(ip_network(text))
            except ValueError as error:
                raise InvalidSetting(
                    f'"{text}" is not a network: use one such as 10.0.0.0/8 ({error})'
                ) from None

    def allows(self, address: str) -> bool:
        ip = ip_address(address.partition("%")[0])
        return any(ip in network for network in self._private if network.version == ip.version) or (
            all(_is_public(each) for each in _unwrap(ip))
            or any(
                each in network
                for each in _unwrap(ip)[1:]
                for network in self._private
                if network.version == each.version
            )
        )

    def check_url(self, url: str) -> None:
        """Raise AddressRefused for a URL that is not called in any case."""
        try:
            parts = urlsplit(url)
            _ = parts.port
        except ValueError as error:
            raise AddressRefused(f"{url} is not a URL: {error}") from None
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise AddressRefused(f"{url} is not an http:// or https:// URL")
        if parts.username is not None or parts.password is not None:
            raise AddressRefused(f"the URL of {parts.hostname} contains a user or password")


class HttpClient:
    """Makes calls, as `Calls`. Use it as a context.

    reuse: connections are kept open for other calls. A target may close one at the very moment when
    the next call is sent on it, and then nobody knows whether it was received.
    """

    def __init__(self, guard: Guard, *, connections: int = 100, reuse: bool = True) -> None:
        self._guard = guard
        self._connections = connections
        self._reuse = reuse
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open(self) -> AsyncIterator[HttpClient]:
        trace = aiohttp.TraceConfig()
        trace.on_request_headers_sent.append(_note_sent)
        connector = aiohttp.TCPConnector(
            limit=self._connections,
            force_close=not self._reuse,
            keepalive_timeout=KEEP_IDLE if self._reuse else None,
            socket_factory=self._make_socket,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            headers={"accept-encoding": "identity", "user-agent": "laneway"},
            trace_configs=[trace],
            middlewares=[_send_once],
            raise_for_status=False,
        ) as self._session:
            yield self
        self._session = None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the answer, whatever its status; raise CallFailed if there is none."""
        self._guard.check_url(request.url)
        if self._session is None:
            raise Unreachable("the gateway is stopping", sent=False)
        progress = _Progress()
        try:
            async with asyncio.timeout(request.timeout.total_seconds()):
                return await self._send(self._session, request, progress)
        except aiohttp.ConnectionTimeoutError:
            raise Unreachable("no connection before the lease ends", sent=False) from None
        except TimeoutError:
            seconds = request.timeout.total_seconds()
            raise TimedOut(f"no answer within {seconds:g} s", sent=progress.sent) from None
        except aiohttp.ClientConnectorError as error:
            if (refused := _find_refusal(error)) is not None:
                raise AddressRefused(refused) from None
            place = f"{error.host}:{error.port}"
            reason = _explain(error.os_error)
            raise Unreachable(f"cannot connect to {place}: {reason}", sent=False) from None
        except aiohttp.InvalidURL as error:
            raise AddressRefused(f"{error} is not a URL") from None
        except (aiohttp.ClientPayloadError, aiohttp.ClientResponseError) as error:
            raise BadAnswer(f"the answer is not valid HTTP: {error}", sent=True) from None
        except (aiohttp.ClientError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise Unreachable(f"the connection was lost: {reason}", sent=progress.sent) from None

    async def _send(
        self, session: aiohttp.ClientSession, request: HttpRequest, progress: _Progress
    ) -> HttpResponse:
        within = request.send_within
        connect = None if within is None else within.total_seconds()
        async with session.request(
            request.method,
            request.url,
            headers=request.headers,
            data=request.body,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=connect),
            trace_request_ctx=progress,
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > LONGEST_ANSWER:
                    raise BadAnswer(
                        f"the answer is longer than {LONGEST_ANSWER} bytes (status {response.status})",
                        sent=True,
                    )
            headers = {name.lower(): value for name, value in response.headers.items()}
            return HttpResponse(status=response.status, headers=headers, body=bytes(body))

    def _make_socket(self, address: Sequence[object]) -> socket.socket:
        family, kind, protocol, _, place = address
        host: str = place[0]  # type: ignore[index]  # of an internet address
        if not self._guard.allows(host):
            raise _Refused(
                f"the address {host} is private: add its network to `private_networks`, if it is meant"
            )
        return socket.socket(family, kind, protocol)  # type: ignore[arg-type]  # as getaddrinfo says


async def _send_once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Hide a lost connection from aiohttp, which would repeat PUT and DELETE by itself."""
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Disconnected(str(error) or type(error).__name__) from error


async def _note_sent(
    _session: aiohttp.ClientSession,
    context: SimpleNamespace,
    _params: aiohttp.TraceRequestHeadersSentParams,
) -> None:
    context.trace_request_ctx.sent = True


def _find_refusal(error: aiohttp.ClientConnectorError) -> str | None:
    causes: list[BaseException | None] = [error.os_error]
    while causes:
        cause = causes.pop()
        if isinstance(cause, _Refused):
            return str(cause)
        if isinstance(cause, BaseExceptionGroup):
            causes += cause.exceptions
        elif cause is not None:
            causes += [cause.__cause__, cause.__context__]
    return None


def _explain(error: OSError) -> str:
    match error:
        case ConnectionRefusedError():
            return "connection refused"
        case socket.gaierror():
            return f"host name not found ({error.strerror})"
        case _:
            return error.strerror or str(error) or type(error).__name__


def _is_public(ip: IPv4Address | IPv6Address) -> bool:
    return ip.is_global and not ip.is_multicast


def _unwrap(ip: IPv4Address | IPv6Address) -> list[IPv4Address | IPv6Address]:
    """Return the address, and the IPv4 address that it stands for, if it does."""
    inner: IPv4Address | None = None
    if isinstance(ip, IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour
        if ip in _TRANSLATED:
            inner = IPv4Address(int(ip) & 0xFFFF_FFFF)
        if ip.teredo is not None:
            inner = ip.teredo[1]
    return [ip] if inner is None else [ip, inner]
