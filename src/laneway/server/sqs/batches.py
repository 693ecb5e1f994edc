"""The rules of every batch: the number of entries, their ids, and their results."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from laneway.server.sqs.errors import Fault
from laneway.server.sqs.wire import BatchFailure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.sqs.wire import Named

MOST_ENTRIES = 10

_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")


def check_entries(entries: Sequence[Named]) -> None:
    """Refuse a batch that is invalid as a whole."""
    if not entries:
        raise Fault("EmptyBatchRequest", "There should be at least one entry in the request.")
    if len(entries) > MOST_ENTRIES:
        raise Fault(
            "TooManyEntriesInBatchRequest",
            f"Maximum number of entries per request are {MOST_ENTRIES}. You have sent "
            f"{len(entries)}.",
        )
    seen = set()
    for entry in entries:
        if not _ID.fullmatch(entry.id):
            raise Fault(
                "InvalidBatchEntryId",
                "A batch entry id can only contain alphanumeric characters, hyphens and "
                "underscores. It can be at most 80 letters long.",
            )
        if entry.id in seen:
            raise Fault("BatchEntryIdsNotDistinct", f"Id {entry.id} repeated.")
        seen.add(entry.id)


def tell_failure(entry: Named, fault: Fault) -> BatchFailure:
    return BatchFailure(
        id=entry.id,
        sender_fault=fault.is_senders,
        code=fault.code.query,
        message=str(fault),
    )
