"""Errors in a form that the client turns back into the same exceptions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.client.wire import describe
from laneway.domain import errors as domain
from laneway.domain.errors import LanewayError
from laneway.server import errors as server
from laneway.server.responses import answer_json, show_wait

if TYPE_CHECKING:
    from laneway.server.responses import Answer

# The status of each error, by its nearest listed class.
STATUS: dict[type[LanewayError], int] = {
    LanewayError: 500,
    domain.Retryable: 503,
    domain.InvalidRequest: 422,
    domain.NotFound: 404,
    domain.Conflict: 409,
    domain.LeaseLost: 409,
    domain.MessageTooLarge: 413,
    domain.BrokerClosed: 503,
    domain.Misconfigured: 503,
    server.RequestError: 400,
    server.InvalidInput: 422,
    server.BodyTooLarge: 413,
    server.NoSuchRoute: 404,
    server.MethodNotAllowed: 405,
    server.Unauthenticated: 401,
    server.Forbidden: 403,
}
_UNAVAILABLE = 503


def explain(error: LanewayError) -> Answer:
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    answer = answer_json(status, describe(error))
    if status == _UNAVAILABLE:
        answer.headers = (show_wait(error),)
    return answer
