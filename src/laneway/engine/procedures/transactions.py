"""The calls about transactions of the gateway, its targets and webhook endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from laneway.domain.errors import QueueNotFound
from laneway.domain.transactions import (
    Breaker,
    Endpoint,
    Reservation,
    Transaction,
    TransactionFigures,
)
from laneway.engine.columns import squeeze
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import asyncpg

    from laneway.domain.messages import Token
    from laneway.domain.transactions import Finding, Finish, NewTransaction
    from laneway.engine.procedures.call import Connection
    from laneway.engine.sqlstates import Meanings

_QUEUE: Meanings = {"LW404": lambda _: QueueNotFound()}


async def accept_transactions(
    connection: Connection, *, queue_id: int, transactions: Sequence[NewTransaction]
) -> list[asyncpg.Record]:
    """Return a row each, not in order: (idx, outcome, transaction_id, status, hash, created_at)."""
    ids, targets, types, requests, bodies, urls, attempts, owners, keys, prints = zip(
        *transactions, strict=True
    )
    keyed = any(key is not None for key in keys)
    return await fetch(
        connection,
        "select * from laneway.accept_transactions($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        queue_id,
        ids,
        squeeze(targets) or targets,
        types,
        requests,
        bodies,
        urls,
        None if all(each is None for each in attempts) else attempts,
        owners if keyed else None,
        keys if keyed else None,
        prints if keyed else None,
        means=_QUEUE,
    )


async def begin_transactions(
    connection: Connection,
    *,
    ids: Sequence[UUID],
    tokens: Sequence[Token],
    segments: Sequence[int],
    lanes: Sequence[int],
    seqs: Sequence[int],
) -> list[asyncpg.Record]:
    """Return rows, not in order: (idx, action, calls, upstream_id, upstream_url, lease_left)."""
    return await fetch(
        connection,
        "select * from laneway.begin_transactions($1, $2, $3, $4, $5)",
        ids,
        tokens,
        segments,
        lanes,
        seqs,
    )


async def finish_transactions(
    connection: Connection, *, finishes: Sequence[Finish], webhook_queue_id: int | None
) -> list[asyncpg.Record]:
    """Return rows: (transaction_id, status, final, changed, told, outcome)."""
    receipts, settlements, findings, reasons, delays = zip(*finishes, strict=True)
    tokens, lanes, seqs = zip(*receipts, strict=True)
    reports = [
        {"n": number} | _write_report(finding)
        for number, finding in enumerate(findings)
        if finding is not None
    ]
    return await fetch(
        connection,
        "select * from laneway.finish_transactions($1, $2, $3, $4, $5, $6, $7, $8)",
        tokens,
        lanes,
        seqs,
        settlements,
        reasons,
        delays,
        _encode(reports),
        webhook_queue_id,
        means=_QUEUE,
    )


async def record_reports(
    connection: Connection, *, findings: Sequence[Finding], webhook_queue_id: int | None
) -> list[asyncpg.Record]:
    """Return rows: (transaction_id, status, final, changed, told)."""
    return await fetch(
        connection,
        "select * from laneway.record_reports($1, $2)",
        _encode([_write_report(finding) for finding in findings]),
        webhook_queue_id,
        means=_QUEUE,
    )


async def find_transactions(connection: Connection, ids: Sequence[UUID]) -> list[Transaction]:
    rows = await fetch(connection, "select * from laneway.find_transactions($1)", ids)
    return list(map(_read, rows))


async def find_upstream(
    connection: Connection, *, target: str, upstream_id: str
) -> Transaction | None:
    rows = await fetch(
        connection, "select * from laneway.find_upstream($1, $2)", target, upstream_id
    )
    return _read(rows[0]) if rows else None


async def list_transactions(
    connection: Connection,
    *,
    statuses: Sequence[str] | None,
    target: str | None,
    since: datetime | None,
    until: datetime | None,
    before: tuple[datetime, UUID] | None,
    limit: int,
) -> list[Transaction]:
    rows = await fetch(
        connection,
        "select * from laneway.list_transactions($1, $2, $3, $4, $5, $6, $7) t"
        " order by t.created_at desc, t.transaction_id desc",
        statuses,
        target,
        since,
        until,
        *(before or (None, None)),
        limit,
    )
    return list(map(_read, rows))


async def list_submitted(
    connection: Connection, *, quiet: timedelta, limit: int
) -> list[Transaction]:
    rows = await fetch(connection, "select * from laneway.list_submitted($1, $2)", quiet, limit)
    return list(map(_read, rows))


async def cancel_transaction(
    connection: Connection, transaction_id: UUID, *, webhook_queue_id: int | None
) -> asyncpg.Record | None:
    """Return (status, cancelled, told), None if there is no such transaction."""
    rows = await fetch(
        connection,
        "select * from laneway.cancel_transaction($1, $2)",
        transaction_id,
        webhook_queue_id,
        means=_QUEUE,
    )
    return rows[0] if rows else None


async def retry_transaction(
    connection: Connection,
    transaction_id: UUID,
    *,
    queue_id: int,
    body: str,
    max_attempts: int | None,
) -> asyncpg.Record | None:
    """Return (status, retried), None if there is no such transaction."""
    rows = await fetch(
        connection,
        "select * from laneway.retry_transaction($1, $2, $3, $4)",
        transaction_id,
        queue_id,
        body,
        max_attempts,
        means=_QUEUE,
    )
    return rows[0] if rows else None


async def fail_lost_transactions(
    connection: Connection,
    *,
    after: tuple[datetime, UUID] | None,
    limit: int,
    min_age: timedelta,
    webhook_queue_id: int | None,
) -> asyncpg.Record:
    """Return (failed, next_at, next_id, told)."""
    (row,) = await fetch(
        connection,
        "select * from laneway.fail_lost_transactions($1, $2, $3, $4, p_webhook_queue_id => $5)",
        *(after or (None, None)),
        limit,
        min_age,
        webhook_queue_id,
        means=_QUEUE,
    )
    return row


async def sweep_transactions(
    connection: Connection, *, age: timedelta, key_age: timedelta, limit: int
) -> int:
    deleted: int = await fetch_value(
        connection, "select laneway.sweep_transactions($1, $2, $3)", age, key_age, limit
    )
    return deleted


async def summarise_transactions(connection: Connection, queue_id: int) -> TransactionFigures:
    (row,) = await fetch(connection, "select * from laneway.summarise_transactions($1)", queue_id)
    return TransactionFigures._make(row)


async def reserve_calls(
    connection: Connection,
    target: str,
    *,
    process: UUID,
    wanted: int,
    running: int,
    concurrency: int | None,
    rate: float | None,
    open_for: timedelta,
) -> Reservation:
    (row,) = await fetch(
        connection,
        "select * from laneway.reserve_calls($1, $2, $3, $4, $5, $6, $7)",
        target,
        process,
        wanted,
        running,
        concurrency,
        rate,
        open_for,
    )
    return Reservation._make(row)


async def note_calls(
    connection: Connection,
    target: str,
    *,
    succeeded: bool,
    failures: int,
    reason: str | None,
    limit: int,
    open_for: timedelta,
) -> asyncpg.Record:
    """Return (failures, is_open, changed)."""
    (row,) = await fetch(
        connection,
        "select * from laneway.note_calls($1, $2, $3, $4, $5, $6)",
        target,
        succeeded,
        failures,
        reason,
        limit,
        open_for,
    )
    return row


async def set_breaker(
    connection: Connection, target: str, *, is_open: bool, open_for: timedelta
) -> None:
    await fetch_value(
        connection, "select laneway.set_breaker($1, $2, $3)", target, is_open, open_for
    )


async def list_breakers(connection: Connection) -> list[Breaker]:
    return [
        Breaker._make(row)
        for row in await fetch(connection, "select * from laneway.list_targets()")
    ]


async def note_webhook(
    connection: Connection, url: str, *, reason: str | None, disable: bool, patience: timedelta
) -> asyncpg.Record:
    """Return (disabled, changed)."""
    (row,) = await fetch(
        connection,
        "select * from laneway.note_webhook($1, $2, $3, $4)",
        url,
        reason,
        disable,
        patience,
    )
    return row


async def list_endpoints(connection: Connection) -> list[Endpoint]:
    rows = await fetch(
        connection,
        "select e.url, e.failing_since, e.disabled_at, e.reason"
        " from laneway.gateway_endpoint e order by e.url",
    )
    return [Endpoint._make(row) for row in rows]


async def enable_endpoint(connection: Connection, url: str) -> bool:
    """Forget that an endpoint failed; return whether it had."""
    return bool(
        await fetch(
            connection,
            "delete from laneway.gateway_endpoint e where e.url = $1 returning 1",
            url,
        )
    )


def _read(row: asyncpg.Record) -> Transaction:
    return Transaction(row["transaction_id"], *[row[name] for name in Transaction._fields[1:]])


def _write_report(finding: Finding) -> dict[str, Any]:
    report = {key: value for key, value in finding._asdict().items() if value is not None}
    if finding.result is not None:
        report["result"] = msgspec.Raw(finding.result.encode())
    if finding.error is not None:
        # PostgreSQL cannot store NUL.
        report["error"] = finding.error.replace("\0", "\N{REPLACEMENT CHARACTER}")
    return report


def _encode(reports: Sequence[dict[str, Any]]) -> str:
    return msgspec.json.encode(reports).decode()
