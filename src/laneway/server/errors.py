"""Errors of a request before it reaches the broker, and of the server itself.

LanewayError
├── RequestError                fix the request; nothing happened
│   ├── MalformedBody           it is not JSON
│   ├── InvalidInput            it is JSON, but not what the operation takes
│   ├── BodyTooLarge
│   ├── NoSuchRoute
│   ├── MethodNotAllowed
│   ├── Unauthenticated         no valid API key
│   └── Forbidden               the key is valid but may not do this
├── ClientGone                  the client has disconnected; send no answer
└── ServerBusy                  retry later; nothing happened
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import LanewayError, Overloaded

if TYPE_CHECKING:
    from collections.abc import Sequence


class Issue(NamedTuple):
    """One thing that is wrong with the input: its code, its place, and a message."""

    code: str
    path: Sequence[str | int]
    message: str


class RequestError(LanewayError):
    pass


class MalformedBody(RequestError):
    pass


class InvalidInput(RequestError):
    def __init__(self, issues: Sequence[Issue]) -> None:
        super().__init__("; ".join(issue.message for issue in issues))
        self.issues = tuple(issues)


class BodyTooLarge(RequestError):
    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the request's body is larger than {limit} bytes: send less in one request, or raise "
            "LANEWAY_MAX_BODY_BYTES"
        )
        self.limit = limit


class NoSuchRoute(RequestError):
    def __init__(self, path: str) -> None:
        super().__init__(f"Not Found - {path}")


class MethodNotAllowed(RequestError):
    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"Method Not Allowed - {method}: use {' or '.join(allowed)}")
        self.allowed = tuple(allowed)


class Unauthenticated(RequestError):
    pass


class Forbidden(RequestError):
    pass


class ClientGone(LanewayError):
    pass


class ServerBusy(Overloaded):
    pass
