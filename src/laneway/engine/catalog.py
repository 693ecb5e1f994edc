"""Caches queues and groups by name, so that pushes and claims need not look them up."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import GroupNotFound, LanewayError, QueueNotFound
from laneway.domain.loops import fail
from laneway.engine.procedures.queues import list_queues

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import timedelta

    from laneway.domain.queues import Group, Queue
    from laneway.engine.pool import Pool
    from laneway.engine.tasks import Tasks


# Seconds before a refresh, so that the call that triggered it goes first.
PAUSE = 0.05


class _Entry(NamedTuple):
    queue: Queue
    fresh_until: float


class Catalog:
    """A cache of queues; entries expire after `age`, on announced changes, and when a call misses.

    Entries in use are refreshed before they expire, so that no call waits for that.
    """

    def __init__(self, *, pool: Pool, tasks: Tasks, age: timedelta) -> None:
        self._pool = pool
        self._tasks = tasks
        self._age = age.total_seconds()
        self._entries: dict[str, _Entry] = {}
        # The number of invalidations before a load: callers share only loads that began after the
        # last one.
        self._loads: dict[tuple[int, str], asyncio.Future[Queue]] = {}
        self._renewals: set[str] = set()
        self._generation = 0
        # A queue that is to be created if it does not exist when it is first named.
        self.default_name: str | None = None
        self.create_default: Callable[[], Awaitable[None]] | None = None
        self._changed: asyncio.Future[None] | None = None

    def peek(self, name: str) -> Queue | None:
        """Return the queue if it is cached."""
        entry = self._entries.get(name)
        if entry is None:
            return None
        left = entry.fresh_until - monotonic()
        if left < 0:
            return None
        if left < self._age / 4 and name not in self._renewals:
            self._renewals.add(name)
            self._tasks.start(self._renew(name), name="catalog")
        return entry.queue

    async def find(self, name: str) -> Queue:
        return self.peek(name) or await self._load(name)

    async def find_group(self, queue_name: str, name: str) -> tuple[Queue, Group]:
        queue = await self.find(queue_name)
        for _ in range(2):
            # The shared load may have begun before the group was created.
            if name not in queue.groups:
                queue = await self._load(queue_name)
        group = queue.groups.get(name)
        if group is None:
            raise GroupNotFound(group=name, queue=queue_name)
        return queue, group

    def forget(self, name: str | None = None) -> None:
        """Drop one queue from the cache, or all."""
        self._generation += 1
        if name is None:
            self._entries.clear()
            if self._changed is not None:
                self._changed.set_result(None)
                self._changed = None
        else:
            self._entries.pop(name, None)

    def next_change(self) -> asyncio.Future[None]:
        """Return a future that is done on the next change, in this process or another."""
        if self._changed is None:
            self._changed = asyncio.get_running_loop().create_future()
        return asyncio.shield(self._changed)

    async def _renew(self, name: str) -> None:
        try:
            await asyncio.sleep(PAUSE)
            with suppress(LanewayError):  # the next caller gets the error
                await self._load(name)
        finally:
            self._renewals.discard(name)

    async def _load(self, name: str) -> Queue:
        """Load a queue; concurrent callers share one query."""
        early = True
        while (load := self._loads.get((self._generation, name))) is not None:
            await asyncio.wait([load])
            if load.cancelled():
                continue
            if early and isinstance(load.exception(), QueueNotFound):
                # The shared load began before this call, and the queue may have been created in
                # between.
                early = False
                continue
            return load.result()
        key = (self._generation, name)
        load = self._loads[key] = asyncio.get_running_loop().create_future()
        try:
            queue = await self._ask(name)
        except LanewayError as error:
            fail(load, error)
            raise
        except BaseException:
            load.cancel()
            raise
        else:
            load.set_result(queue)
            return queue
        finally:
            del self._loads[key]

    async def _ask(self, name: str) -> Queue:
        generation = self._generation
        queues = await self._list(name)
        if name == self.default_name and self.create_default is not None:
            if not queues:
                await self.create_default()
                queues = await self._list(name)
            # Once: a default queue that is deleted stays deleted.
            self.default_name = None
        if not queues:
            self._entries.pop(name, None)
            raise QueueNotFound(queue=name)
        if generation == self._generation:
            fresh_until = monotonic() + self._age
            self._entries[name] = _Entry(queues[0], fresh_until)
        return queues[0]

    async def _list(self, name: str) -> list[Queue]:
        async with self._pool.lend() as connection:
            return await list_queues(connection, [name])
