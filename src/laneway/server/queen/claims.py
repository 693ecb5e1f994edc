"""The claims of a pop: of one queue, of the first of several queues, and of more partitions."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.domain.errors import GroupNotFound, LanewayError, NotFound, QueueNotFound
from laneway.domain.streams import ENCRYPTED, WidenedLease
from laneway.engine.deliveries import count_messages
from laneway.server.queen.registry import list_stream_queues, wait_for_queue
from laneway.server.queen.wire import read_group, read_start

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import ClaimedSpan
    from laneway.domain.queues import Queue
    from laneway.domain.settings import Start
    from laneway.engine import Broker
    from laneway.server.calls import Call
    from laneway.server.claims import Claims
    from laneway.server.queen.encryption import Vault
    from laneway.server.queen.pops import Pop, PopAny

logger = logging.getLogger(__name__)

NO_WAIT = timedelta(0)

# Seconds; a claim that took longer had to wait for messages.
AT_ONCE = 0.02


class Claimed(NamedTuple):
    """Messages that a pop claimed, and their queue. waited: no message was ready at first."""

    queue: str
    spans: Sequence[ClaimedSpan]
    waited: bool


async def claim_queue(
    call: Call[Any, None], claims: Claims, vault: Vault, queue: str, partition: str | None
) -> Claimed:
    """Claim messages of one queue; a pop that waits also waits for the queue to be created."""
    wanted: Pop = call.parameters
    broker = call.service.broker
    loop = asyncio.get_running_loop()
    began = loop.time()
    start = read_start(wanted.subscription_mode, wanted.subscription_from)
    try:
        if not vault.usable:
            _require_key(vault, await broker.queues.find(queue))
        spans = await _claim(
            broker,
            claims,
            queue,
            wanted=wanted,
            wait=wanted.patience,
            start=start,
            partition=partition,
        )
        return Claimed(queue, spans, waited=wanted.wait and loop.time() - began > AT_ONCE)
    except QueueNotFound:
        if not wanted.wait:
            return Claimed(queue, (), waited=False)
    if start == "new":
        # From now on, although the queue does not exist yet.
        start = await broker.ping()
    deadline = began + wanted.patience.total_seconds()
    spans = []
    with suppress(TimeoutError, QueueNotFound):
        async with asyncio.timeout_at(deadline):
            await wait_for_queue(broker, queue)
        left = timedelta(seconds=max(deadline - loop.time(), 0))
        spans = await _claim(
            broker, claims, queue, wanted=wanted, wait=left, start=start, partition=partition
        )
    return Claimed(queue, spans, waited=True)


async def claim_any(call: Call[Any, None], claims: Claims, vault: Vault) -> Claimed:
    """Claim messages of the first queue of a namespace or task that has some."""
    wanted: PopAny = call.parameters
    broker = call.service.broker
    deadline = asyncio.get_running_loop().time() + wanted.patience.total_seconds()
    start = read_start(wanted.subscription_mode, wanted.subscription_from)
    while True:
        changed = broker.queues.next_change()
        queues = await list_stream_queues(broker, namespace=wanted.namespace, task=wanted.task)
        queues = [queue for queue in queues if call.identity.may_use(queue.name)]
        for queue in queues:
            _require_key(vault, queue)
        names = [queue.name for queue in queues]
        for name in names:
            spans = await _claim_if_there(
                broker, claims, name, wanted=wanted, wait=NO_WAIT, start=start
            )
            if spans:
                changed.cancel()
                return Claimed(name, spans, waited=False)
        left = deadline - asyncio.get_running_loop().time()
        if not wanted.wait or left <= 0:
            changed.cancel()
            return Claimed("", (), waited=False)
        claimed = await claim_first(
            broker,
            claims,
            names,
            wanted=wanted,
            left=timedelta(seconds=left),
            start=start,
            changed=changed,
        )
        if claimed is not None:
            return claimed


async def widen_lease(
    broker: Broker, claims: Claims, queue: str, spans: Sequence[ClaimedSpan], *, wanted: Pop
) -> WidenedLease:
    """Add messages of more partitions to a lease. If that fails, log it and add none."""
    try:
        more = await broker.streams.widen_lease(
            queue,
            read_group(wanted.consumer_group),
            spans[0],
            want=wanted.most - count_messages(spans),
            lanes=wanted.lanes - 1,
            lease=wanted.lease,
        )
    except NotFound:
        raise
    except LanewayError as error:
        logger.warning("cannot add partitions to a pop of queue %s: %s", queue, error)
        return WidenedLease(None, ())
    claims.add(more.spans)
    return more


async def claim_first(
    broker: Broker,
    claims: Claims,
    names: Sequence[str],
    *,
    wanted: Pop,
    left: timedelta,
    start: Start,
    changed: asyncio.Future[None],
) -> Claimed | None:
    """Wait for messages of all queues; return None if queues changed, or the time is up.

    The first queue with messages wins. What was claimed of the others is released.
    """
    waiting = {
        asyncio.ensure_future(
            _claim_if_there(broker, claims, name, wanted=wanted, wait=left, start=start)
        ): name
        for name in names
    }
    try:
        futures: list[asyncio.Future[Any]] = [*waiting, changed]
        await asyncio.wait(
            futures, timeout=left.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        changed.cancel()
        for claim in waiting:
            claim.cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
    won: Claimed | None = None
    for name, result in zip(names, results, strict=True):
        if isinstance(result, list) and result:
            if won is None:
                won = Claimed(name, result, waited=True)
            else:
                await claims.release(result)
    return won


async def _claim(
    broker: Broker,
    claims: Claims,
    queue: str,
    *,
    wanted: Pop,
    wait: timedelta,
    start: Start,
    partition: str | None = None,
) -> list[ClaimedSpan]:
    """Claim messages; a group that does not exist yet is created and begins at `start`."""
    group = read_group(wanted.consumer_group)

    async def claim() -> list[ClaimedSpan]:
        return await claims.make(
            broker.claim_spans(
                queue,
                wanted.most,
                group=group,
                wait=wait,
                lease=wanted.lease,
                partition=partition,
                # The token is the lease, so one token covers this pop's messages and no others.
                own_token=True,
            )
        )

    with suppress(GroupNotFound):
        return await claim()
    try:
        await broker.subscriptions.subscribe(queue, group, start=start)
        return await claim()
    except GroupNotFound:
        return []  # deleted again meanwhile


async def _claim_if_there(
    broker: Broker, claims: Claims, queue: str, *, wanted: Pop, wait: timedelta, start: Start
) -> list[ClaimedSpan]:
    """Claim messages; none if the queue does not exist."""
    try:
        return await _claim(broker, claims, queue, wanted=wanted, wait=wait, start=start)
    except QueueNotFound:
        return []


def _require_key(vault: Vault, queue: Queue) -> None:
    """Refuse a pop, before it claims, whose messages could not be decrypted."""
    if queue.guards & ENCRYPTED:
        vault.require_key(queue.name)
