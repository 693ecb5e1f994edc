"""The calls that list many messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.messages import StoredMessage
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.listings import MessageFilter, Sort
    from laneway.domain.messages import Status
    from laneway.engine.procedures.call import Connection


async def list_messages(
    connection: Connection,
    *,
    group_ids: Sequence[int],
    status: Status,
    wanted: MessageFilter,
    sort: Sort,
    descending: bool,
    limit: int,
    offset: int,
) -> list[StoredMessage]:
    rows = await fetch(
        connection,
        "select l.*, case when l.status = 'processing' then ("
        "select w.progress -> l.id from laneway.worker w where w.worker_id = l.consumer_id) end"
        " from laneway.list_messages($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) l",
        group_ids,
        status,
        *wanted,
        sort,
        descending,
        limit,
        offset,
    )
    return [StoredMessage._make(row) for row in rows]


async def count_messages(
    connection: Connection,
    *,
    group_ids: Sequence[int],
    status: Status,
    wanted: MessageFilter,
    most: int,
) -> int:
    """Return the number of messages; with a filter, `most` means that many or more."""
    count: int = await fetch_value(
        connection,
        "select laneway.count_messages($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        group_ids,
        status,
        *wanted,
        most,
    )
    return count
