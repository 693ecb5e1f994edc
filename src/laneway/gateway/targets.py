"""What a target is, and what a kind of target defines."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from laneway.gateway.calls import Calls, HttpRequest, HttpResponse

# The names of kinds in the URLs of their webhooks.
INBOUND_NAMES = {"openzeppelin": "oz-relayer"}


class Redelivery(StrEnum):
    """What happens after a call whose result is unknown, if the target cannot be asked for it."""

    # The transaction fails.
    AT_MOST_ONCE = "at-most-once"
    # The call is repeated.
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySchedule:
    """The pauses between calls: `first`, then longer by `factor` up to `cap`, each at random.

    attempts: calls in all, before the message becomes a dead letter.
    """

    attempts: int = 3
    first: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    cap: timedelta = timedelta(minutes=1)

    def pause_after(self, attempt: int) -> timedelta:
        """Return a random pause before the attempt that follows this one, which counts from 1."""
        seconds = min(
            self.cap.total_seconds(),
            self.first.total_seconds() * self.factor ** min(attempt - 1, 64),
        )
        return timedelta(seconds=seconds * random.uniform(0.5, 1))  # noqa: S311 - no secret


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRule:
    """After so many failures in a row, the target gets no calls for a time, then one as a probe."""

    failures: int = 5
    open_for: timedelta = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """Where changes of a target's transactions are told.

    url: unless the request names another. allowed: beginnings of URLs that a request may name.
    secrets: each signs every webhook, so that receivers can change theirs at any time.
    """

    url: str | None = None
    allowed: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A configured target; its secrets are read.

    permanent_statuses, permanent_texts: answers that are not tried again, beside the usual ones;
    the texts are searched in the answer's body, in any case. concurrency: calls at once, rate: calls
    per second, both over all processes. webhook_secrets: each of them may have signed a webhook of
    the target. private_networks: networks that the target may be in, beside public ones. callback:
    where clients are told. options: what its kind adds.
    """

    name: str
    kind: str
    urls: tuple[str, ...]
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout: timedelta = timedelta(seconds=30)
    redelivery: Redelivery = Redelivery.AT_MOST_ONCE
    permanent_statuses: frozenset[int] = frozenset()
    permanent_texts: tuple[str, ...] = ()
    retry: RetrySchedule = RetrySchedule()
    concurrency: int | None = None
    rate: float | None = None
    breaker: BreakerRule = BreakerRule()
    webhook_secrets: tuple[str, ...] = field(default=(), repr=False)
    private_networks: tuple[str, ...] = ()
    callback: Callback | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """One transaction to send. transaction_id: also the idempotency key of the call.

    request: JSON text. upstream_id: the target's id for it; None until the target answered. upstream_url: the URL of
    the target that it was sent to.
    """

    transaction_id: str
    type: str
    request: str
    upstream_id: str | None = None
    upstream_url: str | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a target says about a transaction. result: JSON, as clients see it."""

    status: str
    upstream_id: str | None = None
    hash: str | None = None
    result: Any = None
    error: str | None = None
    confirmed_at: datetime | None = None


class Notice(NamedTuple):
    """A webhook of a target: which transaction it is about, by the id of either side."""

    report: Report
    transaction_id: str | None = None
    upstream_id: str | None = None


class Health(NamedTuple):
    """How a target is at one URL. pending: transactions that it has not finished."""

    available: bool
    pending: int = 0
    detail: str | None = None


class Words(NamedTuple):
    """The statuses that a kind of target reports. A report counts only if its rank is higher.

    "pending", of rank 0, and "cancelled" exist for every kind. failed: the status of a transaction
    that was given up.
    """

    ranks: Mapping[str, int]
    terminal: frozenset[str]
    failed: str = "failed"


class Upstream(Protocol):
    """A target that is ready to use.

    types: the types of requests that it accepts. can_look_up: whether the target can be asked by
    idempotency key.
    """

    target: Target
    words: Words
    types: tuple[str, ...]
    can_look_up: bool

    async def check(self, type: str, request: Any, calls: Calls) -> Any:  # noqa: A002 - its name in the API
        """Return the request as it is stored and sent: the same object, unless it is changed.

        Raises InvalidFields, InvalidTransaction, InvalidSignature or TargetUnreachable.
        """

    def submit(self, submission: Submission, url: str) -> HttpRequest:
        """Return the call that submits, with the transaction's id as idempotency key."""

    def read_submitted(self, submission: Submission, response: HttpResponse) -> Report:
        """Return what the answer to `submit` reports; raise CallRefused."""

    def look_up(self, submission: Submission, url: str) -> HttpRequest:
        """Return the call that asks whether the target knows the idempotency key."""

    def read_looked_up(self, submission: Submission, response: HttpResponse) -> Report | None:
        """Return what the target knows; None: nothing, so it can be submitted. Raises CallRefused."""

    def ask_status(self, submission: Submission) -> HttpRequest | None:
        """Return the call that asks for the status; None: the target cannot be asked."""

    def read_status(self, submission: Submission, response: HttpResponse) -> Report | None:
        """Return what the answer to `ask_status` reports; None: nothing new. Raises CallRefused."""

    def ask_health(self, url: str) -> HttpRequest | None:
        """Return the call that asks how the target is; None: it cannot be asked."""

    def read_health(self, url: str, response: HttpResponse) -> Health:
        """Return what the answer to `ask_health` says."""

    def read_notice(self, body: bytes) -> Notice:
        """Return what a webhook says, whose signature was checked. Raises InvalidFields."""


@runtime_checkable
class NonceSource(Protocol):
    """A target whose requests are numbered by their sender."""

    async def read_nonce(self, address: str, calls: Calls) -> int:
        """Return the next number. Raises InvalidFields or TargetUnreachable."""


class Kind(Protocol):
    """A kind of target."""

    name: str

    def open(self, target: Target) -> Upstream:
        """Raise InvalidSetting if an option is missing or wrong."""
