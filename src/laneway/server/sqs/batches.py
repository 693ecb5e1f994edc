"""The rules of every batch: the number of entries, their ids, and their results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import BatchFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.sqs.errors import Fault
    from laneway.server.sqs.wire import Named

MOST_ENTRIES = 10

_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def check_entries(entries: Sequence[Named], action: str) -> None:
    """Refuse a batch that is invalid as a whole."""
    if not entries:
        raise Refusal.NO_ENTRIES.fault(action=action)
    if len(entries) > MOST_ENTRIES:
        raise Refusal.ENTRIES.fault(count=len(entries))
    seen = set()
    for entry in entries:
        if not _ID.fullmatch(entry.id):
            raise Refusal.ENTRY_ID.fault()
        if entry.id in seen:
            raise Refusal.REPEATED_ID.fault(id=entry.id)
        seen.add(entry.id)


def tell_failure(entry: Named, fault: Fault) -> BatchFailure:
    return BatchFailure(
        id=entry.id,
        sender_fault=fault.is_senders,
        code=fault.code.query,
        message=str(fault),
    )
