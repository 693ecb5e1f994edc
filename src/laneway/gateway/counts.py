"""Counters of what a process has sent, for its metrics."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class CallOutcome(IntEnum):
    """How a call of a target ended. REJECTED: the answer is not retried. UNANSWERED: there was none."""

    SUCCEEDED = 0
    REJECTED = 1
    RETRYABLE = 2
    UNANSWERED = 3


class WebhookOutcome(IntEnum):
    """How a webhook to a client ended. DISABLED: it was not sent, because its endpoint is disabled."""

    DELIVERED = 0
    FAILED = 1
    DISABLED = 2


class Counts:
    """Counters since the process started, of calls by target."""

    __slots__ = ("calls", "webhooks")

    def __init__(self, targets: Iterable[str]) -> None:
        self.calls = {name: [0] * len(CallOutcome) for name in targets}
        self.webhooks = [0] * len(WebhookOutcome)

    def list_all(self) -> list[int]:
        """Return the counters in one order: of each target, then of webhooks."""
        return [*(count for counts in self.calls.values() for count in counts), *self.webhooks]
