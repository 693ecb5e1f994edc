"""What targets report, as it is recorded."""

from __future__ import annotations

import json
from math import isfinite
from typing import TYPE_CHECKING, Any

from laneway.domain.transactions import Finding

if TYPE_CHECKING:
    from uuid import UUID

    from laneway.gateway.targets import Report, Words


def make_finding(
    transaction_id: UUID,
    report: Report,
    words: Words,
    *,
    url: str | None = None,
    called: bool = False,
) -> Finding:
    """Return what a report says. url: the target's, if the report answers a submission."""
    return Finding(
        transaction_id,
        status=report.status,
        rank=words.ranks[report.status],
        final=report.status in words.terminal,
        hash=_clean(report.hash),
        result=None if report.result is None else json.dumps(_clean(report.result)),
        error=_clean(report.error),
        upstream_id=_clean(report.upstream_id),
        upstream_url=url if report.upstream_id is not None else None,
        confirmed_at=report.confirmed_at,
        called=called,
        failed_status=words.failed,
    )


def _clean(value: Any) -> Any:
    """Return a value without what PostgreSQL's JSON lacks: NULs, halves of surrogate pairs, NaN and infinity."""
    match value:
        case str():
            return (
                value.replace("\0", "\N{REPLACEMENT CHARACTER}").encode(errors="replace").decode()
            )
        case float() if not isfinite(value):
            return None
        case list():
            return [_clean(each) for each in value]
        case dict():
            return {_clean(key): _clean(each) for key, each in value.items()}
        case _:
            return value
