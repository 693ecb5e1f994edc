"""Periodic jobs: every worker tries to fire each one, and the database accepts the first."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError, Retryable
from laneway.domain.messages import OutgoingMessage
from laneway.library.arguments import check_priority, check_text, settings_of
from laneway.library.validation import PayloadRules
from laneway.worker.backoff import wait_after

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.domain.backend import Backend
    from laneway.worker.cron import Cron

logger = logging.getLogger(__name__)

# How often the database's clock is read at least, because the worker's clock may drift from it.
LONGEST_SLEEP = timedelta(minutes=1)

RULES = PayloadRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A message to enqueue at the times of `cron`. payload None: the schedule's name and the time."""

    name: str
    cron: Cron
    queue: str
    payload: Any = None
    priority: int = 0
    partition: str = ""
    headers: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        with settings_of(f"schedule {self.name!r}"):
            check_text(self.name, "name")
            check_text(self.queue, "queue name")
            check_text(self.partition, "partition")
            check_priority(self.priority)
            # A payload that cannot be encoded is refused now, not when the job is first due.
            self.make_message(datetime.now(UTC))

    def make_message(self, due: datetime) -> OutgoingMessage:
        payload = self.payload
        if payload is None:
            payload = {"schedule": self.name, "due": due.isoformat()}
        headers = RULES.write_headers(self.headers)
        return OutgoingMessage(RULES.write(payload), self.partition, self.priority, headers=headers)


async def keep_firing(schedule: Schedule, backend: Backend) -> None:
    """Register the schedule and fire it at its times, by the database's clock, until cancelled.

    Times at which no worker was running are skipped.
    """
    due: datetime | None = None
    registered = False
    while True:
        try:
            if not registered:
                await backend.schedules.register(
                    schedule.name,
                    schedule.cron.expression,
                    queue=schedule.queue,
                    message=schedule.make_message(datetime.now(UTC)),
                    timed=schedule.payload is None,
                )
                registered = True
            now = await backend.ping()
            if due is None:
                due = schedule.cron.next_after(now)
            if due > now:
                await asyncio.sleep(min(due - now, LONGEST_SLEEP).total_seconds())
                continue
            await backend.workers.fire_schedule(
                schedule.name,
                schedule.cron.expression,
                due,
                queue=schedule.queue,
                message=schedule.make_message(due),
            )
            due = schedule.cron.next_after(max(due, now))
        except Retryable as error:
            await wait_after(error)
        except LanewayError:
            logger.exception("schedule %r could not be fired, trying again", schedule.name)
            due = None
            await asyncio.sleep(1)
