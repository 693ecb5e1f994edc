"""The routes that tell whether the server is well, and how it is set."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Literal

import msgspec

from laneway.domain.errors import LanewayError, Unavailable
from laneway.server.access import nothing
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.times import show_seconds

if TYPE_CHECKING:
    from laneway.server.calls import Call

# A database that takes longer to say hello is not well.
PATIENCE = timedelta(seconds=2)


class PostgresHealth(msgspec.Struct, omit_defaults=True):
    """latency: milliseconds a round trip took; pool: connections of this process."""

    ok: bool
    latency: float | None = None
    error: str | None = None
    pool: dict[str, int] | None = None


class HealthDetails(msgspec.Struct):
    status: Literal["healthy", "unhealthy", "stopping"]
    postgres: PostgresHealth


class Health(msgspec.Struct):
    status: Literal["OK", "ERROR"]
    details: HealthDetails


class Liveness(msgspec.Struct):
    status: Literal["OK"]


class Config(msgspec.Struct):
    ack_timeout_seconds: float
    max_attempts: int


async def show_health(call: Call[None, None]) -> Answer:
    postgres = await _look(call)
    if postgres.ok:
        return answer_json(200, Health("OK", HealthDetails("healthy", postgres)))
    return answer_json(503, Health("ERROR", HealthDetails("unhealthy", postgres)))


async def show_readiness(call: Call[None, None]) -> Answer:
    """Tell whether requests should come here: not while the server stops, nor without database."""
    if call.service.stopping.is_set():
        details = HealthDetails("stopping", PostgresHealth(ok=True))
        return answer_json(503, Health("ERROR", details))
    return await show_health(call)


async def show_liveness(_: Call[None, None]) -> Answer:
    """Tell that the process answers, whatever its database does."""
    return answer_json(200, Liveness("OK"))


async def show_config(call: Call[None, None]) -> Answer:
    settings = call.settings
    return answer_json(200, Config(show_seconds(settings.ack_timeout), settings.max_attempts))


async def _look(call: Call[None, None]) -> PostgresHealth:
    began = perf_counter()
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            await call.service.ping()
    except (LanewayError, TimeoutError) as error:
        # Who asks may be anybody: what is wrong in detail is in the log.
        away = isinstance(error, Unavailable | TimeoutError)
        return PostgresHealth(ok=False, error="away" if away else "misconfigured")
    measured = call.broker.measure()
    return PostgresHealth(
        ok=True,
        latency=round((perf_counter() - began) * 1000, 3),
        pool={"open": measured.connections, "idle": measured.idle_connections},
    )


OPERATIONS = (
    Operation(
        method="GET",
        path="/health",
        handler=show_health,
        summary="Whether the server and its database are well",
        answers={200: Health, 503: Health},
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/health/live",
        handler=show_liveness,
        summary="Whether the process answers",
        answers={200: Liveness},
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/health/ready",
        handler=show_readiness,
        summary="Whether requests should come here",
        answers={200: Health, 503: Health},
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/queue/config",
        handler=show_config,
        summary="How new queues are set",
        answers={200: Config},
        role=Role.READ,
        reach=nothing,
        tag="monitoring",
    ),
)
