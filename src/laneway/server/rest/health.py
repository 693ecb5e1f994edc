"""The routes for health checks, and for the defaults of new queues."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from laneway.domain.errors import LanewayError, Unavailable
from laneway.server.access import nothing
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json
from laneway.server.rest.times import show_seconds

if TYPE_CHECKING:
    from laneway.server.calls import Call

# A database that does not answer within this time counts as unhealthy.
PATIENCE = timedelta(seconds=2)


class PostgresHealth(msgspec.Struct, omit_defaults=True):
    """Whether the database answers and accepts writes."""

    ok: Annotated[
        bool,
        Meta(description="Whether the database answered within two seconds and accepts writes."),
    ]
    latency: Annotated[
        float | None,
        Meta(
            description="Milliseconds that a round trip took. Absent if the database did not answer."
        ),
    ] = None
    error: Annotated[
        str | None,
        Meta(
            description="`away`: the database is unreachable. `read-only`: it answers, but refuses writes, "
            "as a standby does. `misconfigured`: it answers, but the server cannot use it; the "
            "server's log says why."
        ),
    ] = None
    pool: Annotated[
        dict[str, int] | None,
        Meta(
            description="Connections of this process to the database: `open` in total, `idle` of them."
        ),
    ] = None


class HealthDetails(msgspec.Struct):
    """Why a server is healthy or not."""

    status: Annotated[
        Literal["healthy", "unhealthy", "stopping"],
        Meta(description="`stopping`: the server is shutting down and takes no new work."),
    ]
    postgres: Annotated[PostgresHealth, Meta(description="The state of the database connection.")]


class Health(msgspec.Struct):
    """Whether a server can work."""

    status: Annotated[
        Literal["OK", "ERROR"], Meta(description="`OK` with status 200, `ERROR` with status 503.")
    ]
    details: Annotated[HealthDetails, Meta(description="Why.")]


class Liveness(msgspec.Struct):
    """The process answers."""

    status: Annotated[Literal["OK"], Meta(description="Always `OK`.")]


class Config(msgspec.Struct):
    """Defaults of new queues."""

    ack_timeout_seconds: Annotated[
        float, Meta(description="Lease duration in seconds of queues created without their own.")
    ]
    max_attempts: Annotated[
        int,
        Meta(
            description="Deliveries before a message becomes a dead letter, for queues created without "
            "their own."
        ),
    ]


async def show_health(call: Call[None, None]) -> Answer:
    postgres = await _look(call)
    if postgres.ok:
        return answer_json(200, Health("OK", HealthDetails("healthy", postgres)))
    return answer_json(503, Health("ERROR", HealthDetails("unhealthy", postgres)))


async def show_readiness(call: Call[None, None]) -> Answer:
    """Answer 503 while the server is stopping or its database does not answer."""
    if call.service.stopping.is_set():
        details = HealthDetails("stopping", PostgresHealth(ok=True))
        return answer_json(503, Health("ERROR", details))
    return await show_health(call)


async def show_liveness(_: Call[None, None]) -> Answer:
    """Answer 200 without asking the database."""
    return answer_json(200, Liveness("OK"))


async def show_config(call: Call[None, None]) -> Answer:
    settings = call.settings
    return answer_json(200, Config(show_seconds(settings.ack_timeout), settings.max_attempts))


async def _look(call: Call[None, None]) -> PostgresHealth:
    began = perf_counter()
    try:
        async with asyncio.timeout(PATIENCE.total_seconds()):
            writable = await call.service.accepts_writes()
    except (LanewayError, TimeoutError) as error:
        # Anyone may call this, so the details are only in the log.
        away = isinstance(error, Unavailable | TimeoutError)
        return PostgresHealth(ok=False, error="away" if away else "misconfigured")
    if not writable:
        return PostgresHealth(ok=False, error="read-only")
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
        summary="Check the server and its database",
        description=(
            "Sends a query to the database and reports how long it took. The check needs no "
            "API key and does not count against the server's limits. Use `/api/health/live` "
            "to decide whether to restart the process, and `/api/health/ready` to decide "
            "whether to send it requests."
        ),
        answers={
            200: Response(Health, "The server and its database are healthy."),
            503: Response(
                Health,
                "The database did not answer within two seconds, refuses writes, or cannot be used. "
                "`details` says which.",
            ),
        },
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/health/live",
        handler=show_liveness,
        summary="Check that the process answers",
        description=(
            "Answers without asking the database. If it does not answer, restart the process. "
            "The check needs no API key."
        ),
        answers={200: Response(Liveness, "The process answers.")},
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/health/ready",
        handler=show_readiness,
        summary="Check whether to send requests to this server",
        description=(
            "Fails while the server shuts down, and while its database does not answer. Point "
            "a load balancer's health check here. The check needs no API key."
        ),
        answers={
            200: Response(Health, "Send requests here."),
            503: Response(
                Health,
                "Send no requests here: the server is shutting down, or its database does "
                "not answer or refuses writes.",
            ),
        },
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
    Operation(
        method="GET",
        path="/queue/config",
        handler=show_config,
        summary="Show the defaults of new queues",
        description=(
            "Returns the settings that apply to queues created without their own. Change them "
            "with the server's settings, not over this API."
        ),
        answers={200: Response(Config, "The defaults.")},
        role=Role.READ,
        reach=nothing,
        tag="monitoring",
    ),
)
