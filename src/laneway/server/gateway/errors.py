"""Errors in the gateway's format."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from laneway.domain import errors as domain
from laneway.gateway import failures
from laneway.server import errors as server
from laneway.server.gateway.wire import FieldIssue, RefusedRequest
from laneway.server.operations import Response
from laneway.server.responses import Answer, answer_json, show_wait

if TYPE_CHECKING:
    from laneway.domain.errors import LanewayError

ERRORS: dict[int, Response] = {
    400: Response(
        RefusedRequest,
        "The body is not valid JSON, or fields are invalid. `issues` names each of them.",
    ),
    401: Response(
        RefusedRequest,
        "The API key or token is missing, unknown, revoked or expired, or a signature is wrong.",
    ),
    403: Response(RefusedRequest, "The API key's role or queues do not allow this."),
    408: Response(RefusedRequest, "The request did not arrive in time. Send it again."),
    413: Response(RefusedRequest, "The body is too large. Send a smaller one."),
    431: Response(RefusedRequest, "The headers are too large. Send fewer or shorter ones."),
    503: Response(
        RefusedRequest,
        "The database or the target is unreachable, or the server is busy. Retry after the seconds in `Retry-After`.",
    ),
}


class UnknownTarget(domain.NotFound):
    """No target accepts this type of request."""


class UnknownTransaction(domain.NotFound):
    pass


class KeyReused(domain.Conflict):
    """The idempotency key was used for another request."""


# The nearest class counts.
STATUS: dict[type[LanewayError], int] = {
    domain.LanewayError: 500,
    domain.Retryable: 503,
    domain.InvalidRequest: 400,
    domain.NotFound: 404,
    domain.Conflict: 409,
    domain.MessageTooLarge: 413,
    domain.LeaseLost: 409,
    domain.BrokerClosed: 503,
    domain.Misconfigured: 503,
    domain.InternalError: 500,
    failures.InvalidSignature: 401,
    KeyReused: 422,
    server.RequestError: 400,
    server.BodyTooLarge: 413,
    server.NoSuchRoute: 404,
    server.MethodNotAllowed: 405,
    server.Unauthenticated: 401,
    server.Forbidden: 403,
}

_INTERNAL = 500
_UNAVAILABLE = 503


def explain(error: LanewayError) -> Answer:
    status = find_status(type(error))
    # The details of a bug are in the log.
    message = "Internal Server Error" if status == _INTERNAL else str(error)
    issues: list[FieldIssue] | None = None
    if isinstance(error, failures.InvalidFields):
        issues = [FieldIssue(path, reason) for path, reason in error.issues]
    elif isinstance(error, server.InvalidInput):
        issues = [
            FieldIssue(".".join(map(str, issue.path)), issue.message) for issue in error.issues
        ]
    answer = answer_json(
        status,
        RefusedRequest(
            status_code=status, error=HTTPStatus(status).phrase, message=message, issues=issues
        ),
    )
    if isinstance(error, server.MethodNotAllowed):
        answer.headers = ((b"allow", ", ".join(error.allowed).encode()),)
    elif status == _UNAVAILABLE:
        answer.headers = (show_wait(error),)
    return answer


def find_status(kind: type[LanewayError]) -> int:
    for ancestor in kind.__mro__:
        if ancestor in STATUS:
            return STATUS[ancestor]
    return _INTERNAL
