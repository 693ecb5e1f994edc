"""Accepts requests: checks them, and stores them with their message."""

from __future__ import annotations

import hashlib
import json
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import msgspec

from laneway.domain.transactions import NewTransaction
from laneway.gateway.failures import InvalidTransaction

if TYPE_CHECKING:
    from uuid import UUID

    from laneway.domain.transactions import Accepted, Transaction
    from laneway.engine.transactions import Transactions
    from laneway.gateway.calls import Calls
    from laneway.gateway.targets import Callback, Upstream

LONGEST_KEY = 255
LONGEST_URL = 2048


class Intake:
    """Accepts requests for one target. queue_attempts: of messages that name no number."""

    def __init__(
        self, upstream: Upstream, *, transactions: Transactions, calls: Calls, queue_attempts: int
    ) -> None:
        self._upstream = upstream
        self._transactions = transactions
        self._calls = calls
        attempts = upstream.target.retry.attempts
        self.max_attempts = None if attempts == queue_attempts else attempts

    async def accept(
        self,
        type: str,  # noqa: A002 - its name in the API
        text: str,
        *,
        owner: str,
        idempotency_key: str | None,
        webhook_url: str | None,
    ) -> Accepted:
        """Store a request. text: its JSON, which is sent as it is unless the target changes it.

        Raises what `Upstream.check` raises.
        """
        given = _read(text)
        target = self._upstream.target
        url = choose_webhook(target.callback, webhook_url)
        request = await self._upstream.check(type, given, self._calls)
        stored = text if request is given else json.dumps(request)
        transaction_id = uuid4()
        fingerprint = None
        if idempotency_key is not None:
            parts = (target.name, type, text, url or "")
            fingerprint = hashlib.sha256("\0".join(parts).encode()).digest()
        return await self._transactions.accept(
            NewTransaction(
                transaction_id,
                target.name,
                type,
                stored,
                write_message(transaction_id, type, stored),
                url,
                self.max_attempts,
                owner,
                idempotency_key,
                fingerprint,
            )
        )

    async def retry(self, transaction: Transaction) -> tuple[str, bool] | None:
        """Send a transaction again that was given up: its status, and whether it is sent again."""
        body = write_message(transaction.id, transaction.type, transaction.request)
        return await self._transactions.retry(
            transaction.id, body=body, max_attempts=self.max_attempts
        )


def _read(text: str) -> Any:
    """Return a request; integers keep all their digits."""
    try:
        # It refuses half a pair of surrogates, which no text has.
        msgspec.json.decode(text, type=msgspec.Raw)
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError, msgspec.DecodeError) as error:
        raise InvalidTransaction(f"the body is not valid JSON: {error}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def write_message(transaction_id: UUID, type: str, request: str) -> str:  # noqa: A002 - as above
    """Return the message of a transaction as JSON."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    fields: dict[str, Any] = {
        "messageId": str(uuid4()),
        "transactionId": str(transaction_id),
        "type": type,
        "request": msgspec.Raw(request.encode()),
        "timestamp": now,
    }
    return msgspec.json.encode(fields).decode()


def choose_webhook(callback: Callback | None, asked: str | None) -> str | None:
    """Return where the changes of a transaction are told; None: nowhere."""
    if asked is None:
        return None if callback is None else callback.url
    if len(asked) > LONGEST_URL:
        raise InvalidTransaction(f"the webhook URL is longer than {LONGEST_URL} characters")
    allowed = () if callback is None else callback.allowed
    if not any(_is_below(asked, place) for place in allowed):
        raise InvalidTransaction(
            f"webhooks to {asked} are not allowed: add the beginning of the URL to the target's"
            " `callback_allowed`"
        )
    return asked


def _is_below(url: str, place: str) -> bool:
    """Return whether a URL has the origin of another and lies in its path."""
    try:
        inner, outer = urlsplit(url), urlsplit(place)
        same = (inner.scheme, inner.hostname, inner.port) == (
            outer.scheme,
            outer.hostname,
            outer.port,
        )
    except ValueError:
        return False
    if not same or inner.username is not None or inner.password is not None:
        return False
    path = outer.path.rstrip("/")
    below = inner.path == path or inner.path.startswith(f"{path}/") or not path
    # Clients and servers read %2e%2e as .. too.
    return below and ".." not in re.split(r"[/\\]", unquote(inner.path))
