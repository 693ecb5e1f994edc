"""The maintenance services, which run in the maintenance leader: one file per service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.maintenance.dedup import Dedup
from laneway.engine.maintenance.expire import Expire
from laneway.engine.maintenance.forget import Forget
from laneway.engine.maintenance.idle import Idle
from laneway.engine.maintenance.kv import Kv
from laneway.engine.maintenance.lanes import Lanes
from laneway.engine.maintenance.outbox import Outbox
from laneway.engine.maintenance.reclaim import Reclaim
from laneway.engine.maintenance.recover import Recover
from laneway.engine.maintenance.redrive import Redrive
from laneway.engine.maintenance.results import Results
from laneway.engine.maintenance.retain import Retain
from laneway.engine.maintenance.rotate import Rotate
from laneway.engine.maintenance.streams import Streams
from laneway.engine.maintenance.timers import Timers

if TYPE_CHECKING:
    import asyncio

    from laneway.domain.settings import MaintenanceSettings
    from laneway.engine.maintenance.service import Service
    from laneway.engine.wakeups import Wakeups


def make_services(
    settings: MaintenanceSettings, wakeups: Wakeups, *, outbox: asyncio.Event, timers: asyncio.Event
) -> list[Service]:
    """Return the services.

    outbox: set when messages have arrived in the outbox. timers: set when a timer is due soon.
    """
    return [
        Expire(settings, wakeups),
        Outbox(settings, wakeups, outbox),
        Rotate(settings),
        Retain(settings),
        Idle(settings),
        Dedup(settings),
        Forget(settings),
        Lanes(settings),
        Recover(settings),
        Reclaim(settings, wakeups),
        Results(settings),
        Redrive(settings, wakeups),
        Streams(settings, wakeups),
        Kv(settings),
        Timers(settings, wakeups, timers),
    ]
