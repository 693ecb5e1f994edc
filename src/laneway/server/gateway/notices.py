"""The route for webhooks of targets: what became of the transactions that they got."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from laneway.gateway.findings import make_finding
from laneway.gateway.signatures import verify
from laneway.gateway.targets import INBOUND_NAMES
from laneway.server.access import nothing
from laneway.server.errors import Unauthenticated
from laneway.server.gateway.errors import UnknownTarget, UnknownTransaction
from laneway.server.gateway.places import find_gateway
from laneway.server.gateway.wire import ChangedTransaction, RefusedRequest
from laneway.server.operations import Media, Operation, Response
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from laneway.domain.transactions import Transaction
    from laneway.gateway.gateway import Gateway
    from laneway.gateway.targets import Notice
    from laneway.server.calls import Call


class NoticePath(msgspec.Struct, kw_only=True):
    target: Annotated[
        str, Meta(description="The target's name, or `oz-relayer` for the relayer target.")
    ]


async def receive_notice(call: Call[NoticePath, None]) -> Answer:
    gateway = find_gateway(call)
    name = call.parameters.target
    place = gateway.places.get(name) or next(
        (
            each
            for each in gateway.places.values()
            if INBOUND_NAMES.get(each.upstream.target.kind) == name
        ),
        None,
    )
    if place is None:
        raise UnknownTarget(f'target "{name}" not found')
    body = await call.read()
    headers = {
        key.decode("latin-1"): value.decode("latin-1")
        for key, value in call.request.headers.items()
    }
    target = place.upstream.target
    if not verify(headers, body, target.webhook_secrets):
        raise Unauthenticated(
            "the signature of the webhook is missing or wrong"
            if target.webhook_secrets
            else f"target {target.name} has no webhook_secrets: its webhooks are refused"
        )
    notice = place.upstream.read_notice(body)
    found = await _find(gateway, target.name, notice)
    if found is None:
        raise UnknownTransaction("there is no such transaction")
    finding = make_finding(found.id, notice.report, place.upstream.words)
    recorded = await gateway.broker.transactions.record([finding])
    await gateway.statuses.forget(found.id)
    status = recorded[0].status if recorded else found.status
    return answer_json(200, ChangedTransaction(str(found.id), status))


async def _find(gateway: Gateway, target: str, notice: Notice) -> Transaction | None:
    transactions = gateway.broker.transactions
    if notice.upstream_id is not None:
        found = await transactions.find_upstream(target, notice.upstream_id)
        if found is not None:
            return found
    if notice.transaction_id is None:
        return None
    try:
        found = await transactions.find(UUID(notice.transaction_id))
    except ValueError:
        return None
    return found if found is not None and found.target == target else None


OPERATIONS = (
    Operation(
        method="POST",
        path="/{target}",
        handler=receive_notice,
        summary="Report what became of a transaction",
        description=(
            "For targets. `X-Signature` (or `X-Oz-Signature`, `X-Webhook-Signature`, "
            "`X-Hub-Signature-256`) is the HMAC-SHA256 of the body with one of the target's "
            "`webhook_secrets`, in base64. A repeated or late report changes nothing."
        ),
        parameters=NoticePath,
        body=Media("application/json", {"description": "The target's webhook."}),
        answers={
            200: Response(ChangedTransaction, "The report is recorded, or changes nothing."),
            404: Response(RefusedRequest, "There is no such target or transaction."),
        },
        role=None,
        reach=nothing,
        tag="gateway",
    ),
)
