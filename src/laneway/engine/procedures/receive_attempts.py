"""The calls that store the result of a receive, for its repetition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    import asyncpg

    from laneway.domain.messages import Token
    from laneway.engine.procedures.call import Connection


async def store_receive_attempt(
    connection: Connection,
    *,
    queue_id: int,
    attempt: str,
    places: Sequence[tuple[Token, int, int, int]],
    window: timedelta,
    received: int,
) -> None:
    columns = zip(*places, strict=True) if places else ((), (), (), ())
    await fetch_value(
        connection,
        "select laneway.store_receive_attempt($1, $2, $3, $4, $5, $6, $7, $8)",
        queue_id,
        attempt,
        *columns,
        window,
        received,
    )


async def find_receive_attempt(
    connection: Connection, *, queue_id: int, attempt: str
) -> list[asyncpg.Record]:
    """Return (token, segment, lane_id, seq, received) of each message of the attempt."""
    return await fetch(
        connection, "select * from laneway.find_receive_attempt($1, $2)", queue_id, attempt
    )
