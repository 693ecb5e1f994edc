"""Outgoing HTTP calls as the parts of the gateway write and read them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """timeout: for the whole call, from the search for the address to the end of the answer.

    send_within: if there is no connection by then, nothing is sent.
    """

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    timeout: timedelta = timedelta(seconds=30)
    send_within: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """headers: by lower-case name; the last one of each name."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class CallFailed(Exception):
    """There is no answer. sent: the target may have received the request."""

    def __init__(self, reason: str, *, sent: bool) -> None:
        super().__init__(reason)
        self.sent = sent


class Unreachable(CallFailed):
    """The target was not found, refused the connection, or closed it without an answer."""


class TimedOut(CallFailed):
    pass


class BadAnswer(CallFailed):
    """The answer is not HTTP, or too long."""


class AddressRefused(CallFailed):
    """The guard does not allow the URL, or the address that its host name stands for."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, sent=False)


class Calls(Protocol):
    """Makes HTTP calls to addresses that are allowed; it does not follow redirects."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the answer, whatever its status; raise CallFailed if there is none."""
