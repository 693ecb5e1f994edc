"""Dead letters: which ones a call concerns, and their groups by kind of failure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from laneway.domain.ids import MessageId


class DeadLetterFilter(NamedTuple):
    """Which dead letters a call concerns; None: any.

    signature: the kind of failure, as FailureGroup has it. search: a text in the reason or the body,
    in any case. since, until: when they were dead-lettered, inclusive.
    """

    ids: Sequence[MessageId] | None = None
    signature: str | None = None
    partition: str | None = None
    search: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class FailureGroup(NamedTuple):
    """Dead letters with the same kind of failure.

    signature: their reason with placeholders for numbers, ids, quoted texts, paths and addresses.
    reason: that of the last one.
    """

    signature: str
    messages: int
    first_at: datetime
    last_at: datetime
    reason: str | None
