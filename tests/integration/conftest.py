"""Brokers for the tests that need one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.engine import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Nothing happens behind the test's back.
QUIET = EngineSettings(maintenance=MaintenanceSettings(enabled=False))


@pytest.fixture
async def broker(database: str) -> AsyncIterator[Broker]:
    """Yield a broker that does no maintenance, with a queue named "jobs"."""
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs")
        yield broker
