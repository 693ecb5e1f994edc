"""Calls of the streams client that several tests share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from queen import Queen

Message = dict[str, Any]


async def push(queen: Queen, name: str, data: Iterable[Any], *, partition: str = "Default") -> None:
    results = await queen.queue(name).partition(partition).push([{"data": each} for each in data])
    assert {result["status"] for result in results} == {"queued"}


async def pop(
    queen: Queen,
    name: str,
    n: int = 10,
    *,
    group: str | None = None,
    partition: str = "Default",
    wait: bool = False,
    mode: str | None = None,
    since: str | None = None,
) -> list[Message]:
    """Take up to n messages of one partition; partition Default: of any."""
    builder = queen.queue(name).partition(partition).batch(n).partitions(1).wait(wait)
    builder = builder.timeout_millis(5000)
    if group is not None:
        builder = builder.group(group)
    if mode is not None:
        builder = builder.subscription_mode(mode)
    if since is not None:
        builder = builder.subscription_from(since)
    messages: list[Message] = await builder.pop()
    return messages


async def ack(
    queen: Queen,
    messages: Message | list[Message],
    status: bool | str = True,  # noqa: FBT001, FBT002 - as the client takes it
    *,
    group: str | None = None,
    error: str | None = None,
) -> dict[str, Any]:
    answer: dict[str, Any] = await queen.ack(messages, status, {"group": group, "error": error})
    return answer


def data_of(messages: Iterable[Message]) -> list[Any]:
    return [message["data"] for message in messages]


async def until(look: Callable[[], Awaitable[Any]], *, seconds: float = 10) -> Any:
    """Return what `look` finds, once it finds something."""
    async with asyncio.timeout(seconds):
        while not (found := await look()):
            await asyncio.sleep(0.02)
    return found
