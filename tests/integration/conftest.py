"""Brokers for the tests that need one."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.settings import EngineSettings, MaintenanceSettings, QueueSettings
from laneway.engine import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# A nacked message is ready again at once.
AT_ONCE = QueueSettings(max_attempts=3, backoff=timedelta(0))

# Nothing happens behind the test's back.
QUIET = EngineSettings(maintenance=MaintenanceSettings(enabled=False))


@pytest.fixture
async def broker(database: str) -> AsyncIterator[Broker]:
    """Yield a broker that does no maintenance, with a queue named "jobs"."""
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs", AT_ONCE)
        yield broker
