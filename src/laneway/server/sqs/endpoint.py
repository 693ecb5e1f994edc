"""The endpoint: finds wire protocol and action, authenticates, runs the action, answers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.domain.errors import InternalError, LanewayError
from laneway.server.errors import ClientGone
from laneway.server.sqs.access import (
    confirm,
    find_access_key,
    identify,
    require_reach,
    require_role,
)
from laneway.server.sqs.actions import ACTIONS
from laneway.server.sqs.attempts import Attempts
from laneway.server.sqs.described import DescribedCodec, accepts_json
from laneway.server.sqs.errors import to_fault
from laneway.server.sqs.exchange import Exchange
from laneway.server.sqs.json import JsonCodec
from laneway.server.sqs.query import LARGEST_FORM, UNKNOWN, QueryCodec, read_form

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.server.calls import Call, Identity, Request
    from laneway.server.responses import Answer
    from laneway.server.sqs.errors import Fault

logger = logging.getLogger(__name__)


class QueuePath(msgspec.Struct):
    """The path of a request: a queue's URL, or the root."""

    account: str = ""
    queue: str = ""
    region: str = ""


class Endpoint:
    """The SQS endpoint of one process."""

    def __init__(self) -> None:
        self._json = JsonCodec(ACTIONS)
        self._query = QueryCodec(ACTIONS)
        self._described = DescribedCodec()
        self._attempts = Attempts()

    async def answer(self, call: Call[Any, None]) -> Answer:
        target = call.request.headers.get(b"x-amz-target")
        if target is None:
            return await self._answer_query(call)
        request_id = call.request.request_id
        try:
            caller = await identify(call)
            body = await call.read()
            identity = confirm(caller, body)
            action, request = self._json.read(target, body)
            require_role(identity, action)
            credential = call.request.headers.get(b"authorization")
            exchange = self._meet(call, identity, find_access_key(caller), credential)
            require_reach(exchange, action, request)
            async with exchange.claims:
                return self._json.write(await action.run(exchange, request), request_id)
        except LanewayError as error:
            return self._json.explain(_name_fault(error, call), request_id)

    async def _answer_query(self, call: Call[Any, None]) -> Answer:
        request_id = call.request.request_id
        wants_json = accepts_json(call.request.headers.get(b"accept", b""))
        codec = self._described if wants_json else self._query
        try:
            caller = await identify(call)
            body = await call.request.read(LARGEST_FORM)
            form = read_form(call.request.query, body)
            if "Action" not in form:
                return UNKNOWN
            identity = confirm(caller, body)
            action, request = self._query.read(form, at_queue=call.parameters is not None)
            require_role(identity, action)
            credential = _find_credential(call, form)
            exchange = self._meet(call, identity, find_access_key(caller), credential)
            require_reach(exchange, action, request)
            async with exchange.claims:
                return codec.write(action, await action.run(exchange, request), request_id)
        except LanewayError as error:
            return codec.explain(_name_fault(error, call), request_id)
        except Exception as error:
            # Other layers would report unexpected errors in JSON, which these clients cannot read.
            logger.exception(
                "a request of the query protocol failed", extra={"request_id": request_id.decode()}
            )
            return codec.explain(to_fault(InternalError(type(error).__name__)), request_id)

    def _meet(
        self,
        call: Call[Any, None],
        identity: Identity,
        access_key: str | None,
        credential: bytes | None,
    ) -> Exchange:
        return Exchange(
            call,
            identity=identity,
            access_key=access_key,
            credential=credential,
            attempts=self._attempts,
        )


def explain(error: LanewayError) -> Answer:
    """Return the error of a request that did not reach its wire protocol."""
    return JsonCodec({}).explain(to_fault(error), b"-")


def tell(error: LanewayError, request: Request) -> Answer:
    """Return the error in the client's wire protocol: XML for forms, which name no target."""
    if b"x-amz-target" in request.headers:
        return JsonCodec({}).explain(to_fault(error), request.request_id)
    return QueryCodec({}).explain(to_fault(error), request.request_id)


def _find_credential(call: Call[Any, None], form: Mapping[str, str]) -> bytes | None:
    presigned = form.get("X-Amz-Credential")
    if presigned is not None:
        return b"Credential=" + presigned.encode()
    return call.request.headers.get(b"authorization")


def _name_fault(error: LanewayError, call: Call[Any, None]) -> Fault:
    if isinstance(error, ClientGone):
        raise error
    fault = to_fault(error)
    if fault.name == "InternalFailure":
        extra = {"request_id": call.request.request_id.decode()}
        logger.error("%s: %s", type(error).__name__, error, extra=extra)
    return fault
