"""Errors with the codes of SQS, in one table for both wire protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.domain import errors as domain
from laneway.server import errors as server
from laneway.server.errors import RequestError
from laneway.server.responses import show_wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.errors import LanewayError

# Errors that SQS declares, and errors that any AWS service may return.
SQS = "com.amazonaws.sqs"
CORAL = "com.amazon.coral.service"


class Code(NamedTuple):
    """An error's name in the query protocol, its status, and where it is declared."""

    query: str
    status: int = 400
    namespace: str = SQS


_PREFIX = "AWS.SimpleQueueService."

CODES: dict[str, Code] = {
    **{
        name: Code(_PREFIX + name)
        for name in (
            "BatchEntryIdsNotDistinct",
            "BatchRequestTooLong",
            "EmptyBatchRequest",
            "InvalidBatchEntryId",
            "MessageNotInflight",
            "QueueDeletedRecently",
            "TooManyEntriesInBatchRequest",
            "UnsupportedOperation",
        )
    },
    "PurgeQueueInProgress": Code(_PREFIX + "PurgeQueueInProgress", 403),
    "QueueDoesNotExist": Code(_PREFIX + "NonExistentQueue"),
    "QueueNameExists": Code("QueueAlreadyExists"),
    "OverLimit": Code("OverLimit", 403),
    "ResourceNotFoundException": Code("ResourceNotFoundException", 404),
    "InvalidAddress": Code("InvalidAddress", 404),
    "InvalidAttributeName": Code("InvalidAttributeName"),
    "InvalidAttributeValue": Code("InvalidAttributeValue"),
    "InvalidMessageContents": Code("InvalidMessageContents"),
    "InvalidSecurity": Code("InvalidSecurity", 403),
    "ReceiptHandleIsInvalid": Code("ReceiptHandleIsInvalid"),
    "RequestThrottled": Code("RequestThrottled", 403),
    "EmptyValue": Code("EmptyValue", 400, CORAL),
    "InvalidParameterValueException": Code("InvalidParameterValue", 400, CORAL),
    "MissingRequiredParameterException": Code("MissingParameter", 400, CORAL),
    "AccessDeniedException": Code("AccessDenied", 403, CORAL),
    "InvalidSignatureException": Code("SignatureDoesNotMatch", 403, CORAL),
    "UnrecognizedClientException": Code("InvalidClientTokenId", 403, CORAL),
    "IncompleteSignatureException": Code("IncompleteSignature", 400, CORAL),
    "MissingAuthenticationTokenException": Code("MissingAuthenticationToken", 403, CORAL),
    "SerializationException": Code("MalformedInput", 400, CORAL),
    "InvalidAction": Code("InvalidAction", 400, CORAL),
    "UnknownOperationException": Code("UnknownOperationException", 404, CORAL),
    "RequestEntityTooLargeException": Code("RequestEntityTooLarge", 413, CORAL),
    "ServiceUnavailableException": Code("ServiceUnavailable", 503, CORAL),
    "InternalFailure": Code("InternalFailure", 500, CORAL),
}

# The code of each error of the broker and the server, by its nearest listed class.
NAMES: dict[type[LanewayError], str] = {
    domain.LanewayError: "InternalFailure",
    domain.Retryable: "ServiceUnavailableException",
    domain.InvalidRequest: "InvalidParameterValueException",
    domain.QueueNotFound: "QueueDoesNotExist",
    domain.QueueExists: "QueueNameExists",
    domain.LeaseLost: "ReceiptHandleIsInvalid",
    domain.BrokerClosed: "ServiceUnavailableException",
    domain.Misconfigured: "ServiceUnavailableException",
    domain.InternalError: "InternalFailure",
    server.RequestError: "InvalidParameterValueException",
    server.MalformedBody: "SerializationException",
    server.BodyTooLarge: "RequestEntityTooLargeException",
    server.NoSuchRoute: "UnknownOperationException",
    server.MethodNotAllowed: "UnknownOperationException",
    server.Unauthenticated: "UnrecognizedClientException",
    server.Forbidden: "AccessDeniedException",
}

_UNAVAILABLE = 503
NO_QUEUE = "The specified queue does not exist."


class Fault(RequestError):
    """A refused request, with its name in the table of codes, and further headers of its answer."""

    def __init__(
        self, name: str, message: str, *, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> None:
        super().__init__(message)
        self.name = name
        self.headers = tuple(headers)

    @property
    def code(self) -> Code:
        return CODES[self.name]

    @property
    def is_senders(self) -> bool:
        return self.code.status < 500  # noqa: PLR2004 - as HTTP divides them


def to_fault(error: LanewayError) -> Fault:
    """Return any error as an SQS error."""
    if isinstance(error, Fault):
        return error
    for ancestor in type(error).__mro__:
        name = NAMES.get(ancestor)
        if name is not None:
            unavailable = CODES[name].status == _UNAVAILABLE
            headers = [show_wait(error)] if unavailable else []
            return Fault(name, _word(error, name), headers=headers)
    return Fault("InternalFailure", "Internal failure")


def _word(error: LanewayError, name: str) -> str:
    if name == "QueueDoesNotExist":
        return NO_QUEUE
    if name == "InternalFailure":
        # The details are in the log; clients cannot act on them.
        return "The request processing has failed because of an unknown error."
    return str(error)
