"""Errors in the streams protocol's format: status, code and text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain import errors as domain
from laneway.server import errors as server
from laneway.server.operations import Response
from laneway.server.queen.wire import Failure
from laneway.server.responses import Answer, answer_json, show_wait

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.domain.errors import LanewayError
    from laneway.server.calls import Request

# The error answers that any operation may give.
ERRORS: dict[int, Response] = {
    400: Response(
        Failure, "The body is not valid JSON, or a field or parameter is invalid. `error` names it."
    ),
    401: Response(
        Failure,
        "The API key or token is missing, unknown, revoked or expired. Send a valid one as `Authorization: Bearer`.",
    ),
    403: Response(
        Failure,
        "The API key's role or queues do not allow this. Use a key with the role and queues that `error` names.",
    ),
    408: Response(Failure, "The request did not arrive in time. Send it again."),
    413: Response(Failure, "The body or a message is too large. Send a smaller one."),
    431: Response(Failure, "The headers are too large. Send fewer or shorter ones."),
    503: Response(
        Failure,
        "The database is unreachable, or the server is busy or stopping. Retry after the seconds in `Retry-After`.",
    ),
}

# The status and code of each error, by its nearest listed class.
STATUS: dict[type[LanewayError], tuple[int, str]] = {
    domain.LanewayError: (500, "internal"),
    domain.Retryable: (503, "unavailable"),
    domain.InvalidRequest: (400, "invalid_request"),
    domain.NotFound: (404, "not_found"),
    domain.QueueNotFound: (404, "queue_not_found"),
    domain.GroupNotFound: (404, "group_not_found"),
    domain.Conflict: (409, "conflict"),
    domain.MessageTooLarge: (413, "message_too_large"),
    domain.LeaseLost: (409, "lease_lost"),
    domain.BrokerClosed: (503, "unavailable"),
    domain.Misconfigured: (503, "misconfigured"),
    domain.InternalError: (500, "internal"),
    server.RequestError: (400, "invalid_request"),
    server.BodyTooLarge: (413, "body_too_large"),
    server.NoSuchRoute: (404, "no_such_route"),
    server.MethodNotAllowed: (405, "method_not_allowed"),
    server.Unauthenticated: (401, "unauthorized"),
    server.Forbidden: (403, "forbidden"),
}

_UNAVAILABLE = 503
_INTERNAL = 500


# Groups of routes whose clients expect error codes of their own.
_FAMILIES = {"kv", "locks", "timers"}


def explain_for(error: LanewayError, request: Request) -> Answer:
    """Return the answer, with the code that the clients of its route expect."""
    family = request.path.removeprefix("/api/v1/").partition("/")[0]
    if family in _FAMILIES:
        codes = {400: f"{family}_bad_request", 413: "payload_too_large"}
        return explain(error, codes)
    return explain(error)


def explain(error: LanewayError, codes: Mapping[int, str] | None = None) -> Answer:
    """Return an error as an answer. codes: instead of the usual ones, by status."""
    status, code = find_status(type(error))
    code = (codes or {}).get(status, code)
    # The details of an internal error are in the log; clients cannot act on them.
    words = "internal error" if status == _INTERNAL else _word(error)
    answer = answer_json(status, Failure(error=words, code=code))
    if isinstance(error, server.MethodNotAllowed):
        answer.headers = ((b"allow", ", ".join(error.allowed).encode()),)
    elif status == _UNAVAILABLE:
        answer.headers = (show_wait(error),)
    return answer


def find_status(kind: type[LanewayError]) -> tuple[int, str]:
    for ancestor in kind.__mro__:
        if ancestor in STATUS:
            return STATUS[ancestor]
    return STATUS[domain.InternalError]


def _word(error: LanewayError) -> str:
    if isinstance(error, domain.MessageTooLarge) and error.queue is not None:
        return f"{error.problem}. Send less, or raise the queue's option maxBytes"
    if isinstance(error, server.InvalidInput):
        return "; ".join(
            f"{'.'.join(map(str, issue.path))}: {issue.message}" if issue.path else issue.message
            for issue in error.issues
        )
    return str(error)
