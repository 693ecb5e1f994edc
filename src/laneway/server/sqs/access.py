"""Authenticates callers: by an AWS signature, or by an API key as over other protocols."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.server.access import Kind
from laneway.server.calls import read_key
from laneway.server.sqs.signatures import (
    Signable,
    read_header,
    read_presigned,
    require_scope,
    split_query,
    verify,
)
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laneway.server.calls import Call, Identity
    from laneway.server.sqs.actions import Action
    from laneway.server.sqs.exchange import Exchange
    from laneway.server.sqs.signatures import Signed


class Claim(NamedTuple):
    """The claimed identity of a signed request, to be verified once the body is read."""

    identity: Identity
    signed: Signed
    request: Signable
    secret: str

    def confirm(self, body: bytes) -> Identity:
        verify(self.signed, self.request._replace(body=body), secret=self.secret)
        return self.identity


def confirm(caller: Identity | Claim, body: bytes) -> Identity:
    """Return the identity of the caller, verified with the complete request."""
    return caller.confirm(body) if isinstance(caller, Claim) else caller


def find_access_key(caller: Identity | Claim) -> str | None:
    """Return the id of the key that the request is signed with."""
    return caller.signed.access_key if isinstance(caller, Claim) else None


async def identify(call: Call[Any, Any]) -> Identity | Claim:
    """Return the caller before the body is read; without any API key, every caller.

    A signature covers the body too, so a signed caller must be confirmed once it is read.
    """
    keyring = call.service.keyring
    headers = call.request.headers
    key = read_key(headers)
    known = keyring.recall(key)
    if known is not None:
        return known
    await keyring.refresh_if_stale()
    if not keyring.required or key is not None:
        return await keyring.identify(key)
    exchange = call.request.exchange
    named = {name.decode("latin-1"): value.decode("latin-1") for name, value in exchange.headers}
    query = split_query(exchange.query)
    signed = read_presigned(query)
    if signed is None:
        if "authorization" not in named:
            raise Refusal.UNSIGNED.fault()
        signed = read_header(named["authorization"], named)
    found = await keyring.find_secret(signed.access_key)
    if found is None:
        raise Refusal.UNKNOWN_KEY.fault()
    require_scope(signed, named, now=datetime.now(UTC))
    request = Signable(exchange.method, exchange.path, query, named, b"")
    return Claim(found.identity, signed, request, found.secret)


class Reach(NamedTuple):
    """How an action protects queues from a key that is limited to others, before it runs."""

    kind: Kind
    queues: Callable[[Exchange, Any], Sequence[str]] | None = None


def _read_url(exchange: Exchange, request: Any) -> Sequence[str]:
    return (exchange.name_queue(request),)


def _read_name(exchange: Exchange, request: Any) -> Sequence[str]:
    if not request.queue_name:
        return ()
    account = getattr(request, "queue_owner_aws_account_id", None)
    return (exchange.name_own(request.queue_name, account),)


def _read_arns(exchange: Exchange, request: Any) -> Sequence[str]:
    fields = {"source_arn": "SourceArn", "destination_arn": "DestinationArn"}
    given = {name: getattr(request, field, None) for field, name in fields.items()}
    return [exchange.name_arn(arn, parameter) for parameter, arn in given.items() if arn]


by_url = Reach(Kind.NAMED, _read_url)
by_name = Reach(Kind.NAMED, _read_name)
by_arns = Reach(Kind.NAMED, _read_arns)
filtered = Reach(Kind.FILTERED)
looked_up = Reach(Kind.LOOKED_UP)


def require_reach(exchange: Exchange, action: Action, request: Any) -> None:
    if exchange.identity.pattern is not None and action.reach.queues is not None:
        for queue in action.reach.queues(exchange, request):
            exchange.require_queue(queue)


def require_role(identity: Identity, action: Action) -> None:
    if identity.role < action.role:
        raise Refusal.ROLE.fault(
            key=identity.name, role=identity.role, action=action.name, required=action.role
        )
