"""Announces changes to other processes on the same database, and receives their announcements."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from laneway.domain.errors import LanewayError
from laneway.engine.pool import open_connection
from laneway.engine.procedures.notification import (
    commit_asynchronously,
    is_only_one,
    listen,
    notify,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from laneway.domain.settings import ConnectionSettings, WakeupSettings
    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection

logger = logging.getLogger(__name__)

WAKE = "laneway_wake"
CATALOG = "laneway_catalog"
OUTBOX = "laneway_outbox"
TRANSACTIONS = "laneway_transactions"

# PostgreSQL's limit for one notification is 8000 bytes.
IDS_PER_NOTICE = 500
UUIDS_PER_NOTICE = 200

# After this many pauses without announcements, it counts as calm.
CALM = 2

SESSION = "laneway notices"
HELLO = "hello"
# Seconds between checks for other processes.
CENSUS = 10.0


class Notices:
    """One connection that listens and notifies, reopened whenever it is lost.

    Announcements of a short time go out as one notification, outside of the callers' transactions.
    Only a push after a calm carries its own notification: then other processes hear of a single
    message one call and one commit earlier. Wake-ups are received only while a consumer waits here,
    so pushes elsewhere do not disturb a process that only pushes. While there is no other process,
    wake-ups are kept for the first one that comes. A notification is "sender:" and, on the channel
    WAKE, queue ids separated by commas; a "+" after an id says that messages may be delayed. On the
    channel CATALOG, HELLO announces a new process, and an empty text a change of queues or groups. On
    the channel TRANSACTIONS, it is "sender:" and the ids of transactions that changed.
    """

    def __init__(
        self,
        dsn: str,
        *,
        connections: ConnectionSettings,
        settings: WakeupSettings,
        on_wake: Callable[[int, bool], None],
        on_catalog: Callable[[], None],
        on_outbox: Callable[[], None],
        on_transactions: Callable[[list[UUID]], None],
        on_gap: Callable[[], None],
    ) -> None:
        """on_gap is called when wake-ups may have been missed."""
        self._dsn = dsn
        self._connections = connections
        self._pause = settings.notify_pause.total_seconds()
        self._retry_pause = connections.reconnect_limit.total_seconds()
        self._on_wake = on_wake
        self._on_catalog = on_catalog
        self._on_outbox = on_outbox
        self._on_transactions = on_transactions
        self._on_gap = on_gap
        self._sender = uuid4().hex
        self._queues: dict[int, bool] = {}
        self._transactions: set[UUID] = set()
        self._catalog = False
        self._calm = CALM * self._pause
        self._last_notified = -self._calm
        self._woken = asyncio.Event()
        self._sending = asyncio.Lock()
        self._awaited = False
        self._alone = False
        self._met = False
        self._census_at = 0.0
        # Every channel is listened to.
        self.listening = asyncio.Event()

    def await_wakes(self) -> None:
        """Receive other processes' wake-ups from soon on, permanently."""
        if not self._awaited:
            self._awaited = True
            self.listening.clear()
            self._woken.set()

    def tell_wake(self, queue_id: int, delayed: bool) -> None:  # noqa: FBT001 - called per push
        self._last_notified = now = monotonic()
        queues = self._queues
        if delayed or queue_id not in queues:
            queues[queue_id] = delayed
            if not self._alone:
                self._woken.set()
        if self._alone and now >= self._census_at:
            self._woken.set()

    def write_notice(self, queue_id: int, delayed: bool) -> str | None:  # noqa: FBT001 - called per push
        """Return a notification for a push to carry, if there was none for a while."""
        now = monotonic()
        if self._alone or now - self._last_notified < self._calm:
            return None
        self._last_notified = now
        return f"{self._sender}:{_write(queue_id, delayed)}"

    def note_notified(self) -> None:
        self._last_notified = monotonic()

    def tell_transactions(self, ids: Iterable[UUID]) -> None:
        if not self._alone:
            self._transactions.update(ids)
            self._woken.set()

    def tell_catalog(self) -> None:
        self._catalog = True
        self._woken.set()

    async def run(self) -> None:
        """Listen and notify."""
        while True:
            try:
                connection = await open_connection(
                    self._dsn, self._connections, direct=True, name=SESSION
                )
                try:
                    await self._listen(connection)
                    await self._serve(connection)
                finally:
                    self.listening.clear()
                    self._alone = False
                    connection.terminate()
            except LanewayError as error:
                logger.debug("database unreachable, no notifications until it is back: %s", error)
            await asyncio.sleep(self._retry_pause)

    async def run_sending(self, pool: Pool) -> None:
        """Only notify, over the pool's connections."""
        while True:
            await self._woken.wait()
            self._woken.clear()
            try:
                async with pool.lend() as connection:
                    await self._send(connection)
            except LanewayError as error:
                logger.debug("database unreachable, no notifications until it is back: %s", error)
                self._woken.set()
                await asyncio.sleep(self._retry_pause)
            await asyncio.sleep(self._pause)

    async def drain(self, pool: Pool) -> None:
        """Return once all announcements are sent, if the database answers."""
        async with self._sending:
            pass
        self._alone = False  # another process may just be starting
        if self._queues or self._catalog or self._transactions:
            with suppress(LanewayError):
                async with pool.lend() as connection:
                    await self._send(connection)

    async def _listen(self, connection: Connection) -> None:
        connection.add_termination_listener(lambda _: self._woken.set())
        await commit_asynchronously(connection)
        await listen(connection, CATALOG, self._hear_catalog)
        await listen(connection, OUTBOX, lambda _: self._on_outbox())
        await listen(connection, TRANSACTIONS, self._hear_transactions)
        self._on_catalog()
        await notify(connection, CATALOG, f"{self._sender}:{HELLO}")

    async def _serve(self, connection: Connection) -> None:
        awaited: bool | None = None
        while True:
            if awaited is not self._awaited:
                awaited = self._awaited
                if awaited:
                    await listen(connection, WAKE, self._hear_wake)
                    self._on_gap()
                self.listening.set()
            await self._woken.wait()
            self._woken.clear()
            if connection.is_closed():
                return
            if self._queues and monotonic() >= self._census_at:
                await self._check_for_others(connection)
            await self._send(connection)
            await asyncio.sleep(self._pause)

    async def _check_for_others(self, connection: Connection) -> None:
        """Check for other processes; assume that there are some if that fails."""
        async with self._sending:
            self._alone = False
            self._met = False
            # A process that starts now may not find what is announced from now on.
            before, self._queues = self._queues, {}
            try:
                alone = await is_only_one(connection, SESSION)
            except LanewayError as error:
                if connection.is_closed():
                    raise
                logger.debug("cannot check for other processes: %s", error)
            else:
                self._alone = alone and not self._met
            finally:
                self._census_at = monotonic() + CENSUS
                if not self._alone:
                    self._keep(before)

    async def _send(self, connection: Connection) -> None:
        async with self._sending:
            catalog, self._catalog = self._catalog, False
            transactions, self._transactions = self._transactions, set()
            queues: dict[int, bool] = {}
            if not self._alone:
                queues, self._queues = self._queues, queues
            ids = [_write(queue_id, delayed) for queue_id, delayed in queues.items()]
            try:
                if catalog:
                    await notify(connection, CATALOG, f"{self._sender}:")
                for payload in _join(ids, IDS_PER_NOTICE):
                    await notify(connection, WAKE, f"{self._sender}:{payload}")
                for payload in _join([each.hex for each in transactions], UUIDS_PER_NOTICE):
                    await notify(connection, TRANSACTIONS, f"{self._sender}:{payload}")
            except BaseException:
                # Announcing twice does no harm.
                self._catalog = self._catalog or catalog
                self._keep(queues)
                self._transactions |= transactions
                self._woken.set()
                raise

    def _keep(self, queues: Mapping[int, bool]) -> None:
        for queue_id, delayed in queues.items():
            self._queues[queue_id] = delayed or self._queues.get(queue_id, False)

    def _hear_wake(self, payload: str) -> None:
        sender, _, ids = payload.partition(":")
        if sender == self._sender:
            return
        for text in ids.split(","):
            digits = text.removesuffix("+")
            if digits.isdecimal():
                self._on_wake(int(digits), digits != text)

    def _hear_transactions(self, payload: str) -> None:
        sender, _, ids = payload.partition(":")
        if sender != self._sender:
            self._on_transactions([UUID(each) for each in ids.split(",")])

    def _hear_catalog(self, payload: str) -> None:
        sender, _, word = payload.partition(":")
        if sender == self._sender:
            return
        self._meet()
        if word != HELLO:
            self._on_catalog()

    def _meet(self) -> None:
        """Record that there are other processes, and send them the kept announcements."""
        self._met = True
        if self._alone:
            self._alone = False
            if self._queues:
                self._woken.set()


def _join(texts: Sequence[str], most: int) -> Iterator[str]:
    """Yield the texts, joined by commas, at most so many at once."""
    for start in range(0, len(texts), most):
        yield ",".join(texts[start : start + most])


def _write(queue_id: int, delayed: bool) -> str:  # noqa: FBT001 - as Messenger
    return f"{queue_id}+" if delayed else str(queue_id)
