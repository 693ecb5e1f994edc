"""Maps errors to answers of the REST protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.domain import errors as domain
from laneway.server import errors as server
from laneway.server.operations import Response
from laneway.server.responses import Answer, answer_json, show_wait
from laneway.server.rest.wire import (
    RefusedKey,
    Reply,
    ValidationIssue,
    ValidationProblem,
    ZodError,
)

if TYPE_CHECKING:
    from laneway.domain.errors import LanewayError

# The error answers that any operation may give.
ERRORS: dict[int, Response] = {
    400: Response(Reply, "The body is not valid JSON, or the request cannot be read."),
    401: Response(
        RefusedKey,
        "The API key or token is missing, unknown, revoked or expired. Send a valid one as `X-API-KEY`.",
    ),
    403: Response(
        RefusedKey,
        "The API key's role or queues do not allow this. Use a key with the role and queues that `message` names.",
    ),
    408: Response(Reply, "The request did not arrive in time. Send it again."),
    413: Response(Reply, "The body or the message is too large. Send a smaller one."),
    422: Response(
        ValidationProblem, "A field or parameter is invalid. `issues` names it; correct it."
    ),
    431: Response(Reply, "The headers are too large. Send fewer or shorter ones."),
    503: Response(
        Reply,
        "The database is unreachable, or the server is busy or stopping. Retry after the seconds in `Retry-After`.",
    ),
}

# The nearest class counts. Every status but 401, 403 and 422 has a Reply as its body.
STATUS: dict[type[LanewayError], int] = {
    domain.LanewayError: 500,
    domain.Retryable: 503,
    domain.InvalidRequest: 422,
    domain.NotFound: 404,
    domain.Conflict: 409,
    domain.QueueNotEmpty: 400,
    domain.MessageTooLarge: 413,
    domain.LeaseLost: 409,
    domain.BrokerClosed: 503,
    domain.Misconfigured: 503,
    domain.InternalError: 500,
    server.RequestError: 400,
    server.BodyTooLarge: 413,
    server.NoSuchRoute: 404,
    server.MethodNotAllowed: 405,
    server.Unauthenticated: 401,
    server.Forbidden: 403,
    server.InvalidInput: 422,
}

_CODES: dict[type[LanewayError], str] = {domain.LeaseLost: "LOCK_LOST"}
_UNPROCESSABLE = 422
_UNAVAILABLE = 503
_INTERNAL = 500


def explain(error: LanewayError) -> Answer:
    status = find_status(type(error))
    answer = answer_json(status, _describe(error, status))
    if isinstance(error, server.MethodNotAllowed):
        answer.headers = ((b"allow", ", ".join(error.allowed).encode()),)
    elif status == _UNAVAILABLE:
        answer.headers = (show_wait(error),)
    return answer


def _describe(error: LanewayError, status: int) -> msgspec.Struct:
    match error:
        case server.InvalidInput():
            return describe_issues(error)
        case server.Unauthenticated():
            return RefusedKey(error="Unauthorized", message=str(error))
        case server.Forbidden():
            return RefusedKey(error="Forbidden", message=str(error))
        case _ if status == _UNPROCESSABLE:
            return describe_issues(server.InvalidInput([server.Issue("custom", (), str(error))]))
        case _:
            return Reply(message=_write_message(error, status), error=_CODES.get(type(error)))


def _write_message(error: LanewayError, status: int) -> str:
    if status == _INTERNAL:
        # The details are in the log.
        return "Internal Server Error"
    if isinstance(error, domain.QueueNotFound) and error.queue is not None:
        return f"Queue not found: {error.queue}"
    if isinstance(error, domain.QueueExists):
        return "Queue already exists"
    return str(error)


def find_status(kind: type[LanewayError]) -> int:
    for ancestor in kind.__mro__:
        if ancestor in STATUS:
            return STATUS[ancestor]
    return _INTERNAL


def describe_issues(error: server.InvalidInput) -> ValidationProblem:
    return ValidationProblem(
        success=False,
        error=ZodError(
            issues=[
                ValidationIssue(code=issue.code, path=list(issue.path), message=issue.message)
                for issue in error.issues
            ]
        ),
    )
