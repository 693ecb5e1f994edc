"""AWS's JSON protocol, version 1.0: X-Amz-Target names the action, bodies are JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.server.responses import Answer, encode
from laneway.server.sqs.decoder import RequestDecoder
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from laneway.server.sqs.actions import Action
    from laneway.server.sqs.errors import Fault
    from laneway.server.sqs.wire import Request, Result

CONTENT_TYPE = b"application/x-amz-json-1.0"

_PREFIX = b"AmazonSQS."


class JsonCodec:
    def __init__(self, actions: dict[str, Action]) -> None:
        # By the raw header, so that finding an action is one look-up.
        self._actions = {
            _PREFIX + name.encode(): (action, RequestDecoder(action.request, lenient=False))
            for name, action in actions.items()
        }

    def read(self, target: bytes, body: bytes) -> tuple[Action, Request]:
        found = self._actions.get(target)
        if found is None:
            raise Refusal.OPERATION.fault(name=target.decode("latin-1"))
        action, decoder = found
        return action, decoder.decode(body)

    def write(self, result: Result | None, request_id: bytes) -> Answer:
        return Answer(
            200,
            b"" if result is None else encode(result),
            content_type=CONTENT_TYPE,
            headers=((b"x-amzn-requestid", request_id),),
        )

    def explain(self, fault: Fault, request_id: bytes) -> Answer:
        code = fault.code
        sender = b"Sender" if fault.is_senders else b"Receiver"
        return Answer(
            code.status,
            encode({"__type": f"{code.namespace}#{fault.name}", "message": str(fault)}),
            content_type=CONTENT_TYPE,
            headers=(
                (b"x-amzn-requestid", request_id),
                (b"x-amzn-query-error", code.query.encode() + b";" + sender),
                *fault.headers,
            ),
        )
