"""Transactions of the gateway: requests that it has accepted, and what is known about them."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

if TYPE_CHECKING:
    from laneway.domain.messages import Receipt

# The queue of requests that are to be sent, the one of its dead letters, and that of webhooks.
TRANSACTIONS = "relay-transactions"
DEAD_LETTERS = "relay-transactions-dlq"
WEBHOOKS = "relay-webhooks"

PENDING = "pending"
CANCELLED = "cancelled"


class NewTransaction(NamedTuple):
    """A request to store. request and body, its message, are JSON text.

    owner: who sent it; idempotency keys are the owner's. fingerprint: a digest of the request, by
    which another one with the same key is known. max_attempts: calls, if it is not the queue's
    number.
    """

    id: UUID
    target: str
    type: str
    request: str
    body: str
    webhook_url: str | None = None
    max_attempts: int | None = None
    owner: str = ""
    idempotency_key: str | None = None
    fingerprint: bytes | None = None


class Acceptance(StrEnum):
    """What became of a request: it is stored, or its idempotency key was seen before."""

    NEW = "new"
    # The same request: it has the answer of the first.
    KNOWN = "known"
    # Another request has this key.
    MISMATCH = "mismatch"
    # The first request with this key is being stored.
    BUSY = "busy"


class Accepted(NamedTuple):
    """The stored transaction; only `outcome` is set if it is a mismatch or busy."""

    outcome: Acceptance
    id: UUID
    status: str
    hash: str | None
    created_at: datetime


class Action(StrEnum):
    """What to do with a message of the gateway's queue."""

    SEND = "send"
    # The result of an earlier call is unknown: ask the target before sending.
    ASK = "ask"
    # It is submitted, cancelled or final: ack the message.
    SKIP = "skip"
    # Another message of this transaction is in flight: release this one.
    BUSY = "busy"
    # There is no such transaction: dead-letter the message.
    MISSING = "missing"
    # The message's lease has ended: another process may have it.
    LOST = "lost"


class Begun(NamedTuple):
    """calls: how many submissions were begun, this one included. lease_left: of the message."""

    action: Action
    calls: int
    upstream_id: str | None
    upstream_url: str | None
    lease_left: timedelta | None


class Settlement(StrEnum):
    ACK = "ack"
    # Nack: it is tried again, unless it is out of attempts.
    RETRY = "retry"
    DEAD = "dead"
    RELEASE = "release"


class Finding(NamedTuple):
    """What was found out about a transaction. What is None is not known, and stays.

    result is JSON text. status: counts if its rank is higher than that of the present one. called:
    the result of the call that was begun is known. failed_status: its status if its message becomes
    a dead letter.
    """

    id: UUID
    status: str | None = None
    rank: int | None = None
    final: bool | None = None
    hash: str | None = None
    result: str | None = None
    error: str | None = None
    upstream_id: str | None = None
    upstream_url: str | None = None
    confirmed_at: datetime | None = None
    called: bool = False
    failed_status: str = "failed"


class Finish(NamedTuple):
    """How to settle the message of a call, and what the call found out.

    delay: of a retry, None: the queue's backoff; of a release, None: none.
    """

    receipt: Receipt
    settlement: Settlement
    finding: Finding | None = None
    reason: str | None = None
    delay: timedelta | None = None


class Recorded(NamedTuple):
    """A transaction after a finding. outcome: of its message, if it was nacked."""

    id: UUID
    status: str
    final: bool
    changed: bool
    outcome: str | None = None


class Transaction(NamedTuple):
    """A stored transaction. request and result are JSON text.

    calls: submissions that were begun. sending_at: since when the result of one is unknown.
    given_up: its message became a dead letter.
    """

    id: UUID
    target: str
    type: str
    status: str
    final: bool
    given_up: bool
    request: str
    result: str | None
    error: str | None
    hash: str | None
    upstream_id: str | None
    upstream_url: str | None
    calls: int
    sending_at: datetime | None
    webhook_url: str | None
    created_at: datetime
    updated_at: datetime
    confirmed_at: datetime | None


class Breaker(NamedTuple):
    """The breaker of a target, as all gateway processes know it.

    failures: in a row. opened_at None: it is closed. probe_in: when the next call is tried. calls:
    in progress, if the target has a limit on concurrency.
    """

    target: str
    failures: int
    reason: str | None
    opened_at: datetime | None
    probe_in: timedelta | None
    calls: int | None


class Reservation(NamedTuple):
    """Calls that may begin now. retry_in: when to ask again; None: when a call has ended."""

    granted: int
    retry_in: timedelta | None
    is_open: bool


class TransactionFigures(NamedTuple):
    """Figures that alerts are about. called, failed: of the newest transactions."""

    oldest_open: timedelta | None
    longest_call: timedelta | None
    called: int
    failed: int


class Endpoint(NamedTuple):
    """A webhook endpoint that fails. disabled_at None: messages are still sent there."""

    url: str
    failing_since: datetime
    disabled_at: datetime | None
    reason: str
