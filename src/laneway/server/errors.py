"""What can be wrong with a request before the broker sees it, and with the server itself.

LanewayError
├── RequestError                change the request; nothing happened
│   ├── MalformedBody           it is not JSON
│   ├── InvalidInput            it is JSON, but not what the operation takes
│   ├── BodyTooLarge
│   ├── NoSuchRoute
│   ├── MethodNotAllowed
│   ├── Unauthenticated         no key, or one that is not known
│   └── Forbidden               the key is known, and does not suffice
├── ClientGone                  nobody is there to answer
└── ServerBusy                  call again later; nothing happened
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import LanewayError, Overloaded

if TYPE_CHECKING:
    from collections.abc import Sequence


class Issue(NamedTuple):
    """One thing wrong with the input: what kind of wrong, where, and in words."""

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
        super().__init__(f"the request's body is larger than {limit} bytes")
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
