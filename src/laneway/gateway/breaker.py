"""Breakers, as one process sees them: the database holds the state that all processes share."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError

if TYPE_CHECKING:
    from laneway.engine.transactions import Transactions
    from laneway.gateway.targets import Target

logger = logging.getLogger(__name__)

# How often breakers are read, in seconds.
INTERVAL = 1.0


class TargetBreaker:
    """The breaker of one target. is_open: the target gets no calls but probes.

    Successes are noted only after failures, so a target that is well costs no calls of the database.
    """

    def __init__(self, target: Target, transactions: Transactions) -> None:
        self._target = target
        self._transactions = transactions
        self._failures = 0
        self._probe_at = 0.0
        self._changed = asyncio.Event()
        self.is_open = False

    async def note_success(self) -> None:
        if self._failures or self.is_open:
            await self._note(succeeded=True, reason=None)

    async def note_failure(self, reason: str) -> None:
        await self._note(succeeded=False, reason=reason)

    async def wait(self) -> None:
        """Return when the target may be called: the breaker is closed, or it is time for a probe."""
        while self.is_open and (left := self._probe_at - monotonic()) > 0:
            self._changed.clear()
            try:
                async with asyncio.timeout(left):
                    await self._changed.wait()
            except TimeoutError:
                return

    def update(self, failures: int, probe_in: float | None) -> None:
        """Take over what all processes know. probe_in: seconds; None: it is closed."""
        self._failures = failures
        if probe_in is not None:
            self._probe_at = monotonic() + probe_in
        self._set(is_open=probe_in is not None)

    async def _note(self, *, succeeded: bool, reason: str | None) -> None:
        rule = self._target.breaker
        try:
            self._failures, is_open, _ = await self._transactions.note_calls(
                self._target.name,
                succeeded=succeeded,
                failures=0 if succeeded else 1,
                reason=reason,
                limit=rule.failures,
                open_for=rule.open_for,
            )
        except LanewayError as error:
            logger.debug("cannot note a call of target %s: %s", self._target.name, error)
            return
        if is_open:
            self._probe_at = monotonic() + rule.open_for.total_seconds()
        self._set(is_open=is_open)

    def _set(self, *, is_open: bool) -> None:
        if is_open is self.is_open:
            return
        self.is_open = is_open
        self._changed.set()
        name = self._target.name
        if is_open:
            logger.warning("breaker of target %s is open: its messages wait", name)
        else:
            logger.info("breaker of target %s is closed: its messages are sent", name)


async def follow_breakers(breakers: dict[str, TargetBreaker], transactions: Transactions) -> None:
    """Keep breakers current until cancelled."""
    while True:
        try:
            found = {each.target: each for each in await transactions.list_breakers()}
        except LanewayError as error:
            logger.debug("cannot read the breakers: %s", error)
        else:
            for name, breaker in breakers.items():
                row = found.get(name)
                if row is None or row.opened_at is None or row.probe_in is None:
                    breaker.update(row.failures if row else 0, None)
                else:
                    breaker.update(row.failures, row.probe_in.total_seconds())
        await asyncio.sleep(INTERVAL)
