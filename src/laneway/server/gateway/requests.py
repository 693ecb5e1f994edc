"""The route that accepts requests for targets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.domain.errors import Conflict, QueueNotFound
from laneway.domain.transactions import Acceptance
from laneway.gateway.failures import InvalidTransaction
from laneway.gateway.intake import LONGEST_KEY
from laneway.gateway.records import TransactionRecord, encode_record
from laneway.server.errors import MalformedBody
from laneway.server.gateway.errors import KeyReused
from laneway.server.gateway.places import find_gateway, find_place, gateway_queue
from laneway.server.gateway.wire import AcceptedTransaction, RefusedRequest
from laneway.server.operations import Media, Operation, Response, Role
from laneway.server.responses import Answer, encode

if TYPE_CHECKING:
    from laneway.domain.transactions import Accepted
    from laneway.gateway.gateway import Gateway, Place
    from laneway.server.calls import Call

# Clients may wait for so many seconds.
LONGEST_WAIT = 60
_WAIT = re.compile(rb"(?:^|[,;\s])wait\s*=\s*([0-9]{1,6})", re.IGNORECASE)
_POLL = b"1"


class TargetPath(msgspec.Struct, kw_only=True):
    target: Annotated[
        str,
        Meta(description="A configured target; `direct` or `gasless` for the relayer target."),
    ]


async def accept(call: Call[TargetPath, None]) -> Answer:
    gateway = find_gateway(call)
    kind = call.parameters.target
    place = find_place(gateway, kind)
    headers = call.request.headers
    text = await _read_body(call)
    key = _read_text(headers.get(b"idempotency-key"), "Idempotency-Key")
    if key is not None and len(key) > LONGEST_KEY:
        raise InvalidTransaction(f"Idempotency-Key is longer than {LONGEST_KEY} characters")
    wait = _read_wait(headers.get(b"prefer"))
    accepted = await _accept(
        gateway,
        place,
        kind,
        text,
        owner=call.identity.name,
        key=key,
        webhook=_read_text(headers.get(b"webhook-url"), "Webhook-Url"),
    )
    match accepted.outcome:
        case Acceptance.MISMATCH:
            raise KeyReused("this Idempotency-Key was used for another request: use a new one")
        case Acceptance.BUSY:
            raise Conflict(
                "the first request with this Idempotency-Key is being stored: repeat this one"
            )
    location = b"/api/v1/relay/status/%b" % str(accepted.id).encode()
    if wait:
        waiting = gateway.statuses.wait(accepted.id, wait)
        found = await call.attend(waiting, otherwise=None)
        applied = (b"preference-applied", b"respond-async, wait=%d" % wait)
        if found is not None and found.final:
            return Answer(200, encode_record(found), headers=((b"location", location), applied))
        return _answer(accepted, location, applied)
    return _answer(accepted, location)


def _answer(accepted: Accepted, location: bytes, *headers: tuple[bytes, bytes]) -> Answer:
    body = AcceptedTransaction(str(accepted.id), None, "pending", accepted.created_at)
    return Answer(
        202,
        encode(body),
        headers=((b"location", location), (b"retry-after", _POLL), *headers),
    )


async def _accept(
    gateway: Gateway,
    place: Place,
    kind: str,
    text: str,
    *,
    owner: str,
    key: str | None,
    webhook: str | None,
) -> Accepted:
    async def accept() -> Accepted:
        return await place.intake.accept(
            kind, text, owner=owner, idempotency_key=key, webhook_url=webhook
        )

    try:
        return await accept()
    except QueueNotFound:
        await gateway.create_queues()
        return await accept()


async def _read_body(call: Call[Any, Any]) -> str:
    try:
        text = (await call.read()).decode()
    except UnicodeDecodeError:
        raise MalformedBody("the body is not UTF-8") from None
    if not text.strip():
        raise MalformedBody("the body is empty: send the request as JSON")
    return text


def _read_text(value: bytes | None, name: str) -> str | None:
    if value is None:
        return None
    try:
        text = value.decode("ascii").strip()
    except UnicodeDecodeError:
        raise InvalidTransaction(f"{name} has characters that are not ASCII") from None
    return text or None


def _read_wait(prefer: bytes | None) -> int:
    found = None if prefer is None else _WAIT.search(prefer)
    return 0 if found is None else min(int(found[1]), LONGEST_WAIT)


OPERATIONS = (
    Operation(
        method="POST",
        path="/{target}",
        handler=accept,
        summary="Have a request sent to a target",
        description=(
            "Stores the request and responds 202 at once; the request and its message are on disk "
            "before the response. `Idempotency-Key`: the same key and body return the first "
            "transaction again, for 24 hours unless configured; another body is refused with 422. "
            "`Prefer: respond-async, wait=N`: wait up to N seconds, 60 at most, for the final status. "
            "`Webhook-Url`: where to tell changes, if the target's configuration allows the URL."
        ),
        parameters=TargetPath,
        body=Media(
            "application/json",
            {
                "description": "What the target's schema describes. For `direct`, a transaction; for "
                "`gasless`, a request to the forwarder contract and its signature."
            },
        ),
        example={"to": "0x5FbDB2315678afecb367f032d93F642f64180aa3", "data": "0x"},
        answers={
            200: Response(
                TransactionRecord, "The transaction became final while the client waited."
            ),
            202: Response(
                AcceptedTransaction, "The request is stored. `Location` shows its status."
            ),
            404: Response(RefusedRequest, "No target accepts this type of request."),
            409: Response(
                RefusedRequest, "The first request with this idempotency key is being stored."
            ),
            422: Response(RefusedRequest, "The idempotency key was used for another request."),
        },
        role=Role.WRITE,
        reach=gateway_queue,
        tag="gateway",
    ),
)
