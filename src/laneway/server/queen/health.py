"""The health check at the root, for stream clients."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.errors import LanewayError
from laneway.server.access import nothing
from laneway.server.operations import Operation, Response
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from laneway.server.calls import Call

# Seconds; a database that does not answer within this time counts as unhealthy.
PATIENCE = 2


class Health(msgspec.Struct, kw_only=True):
    """Whether the server and its database are healthy."""

    status: Annotated[
        Literal["healthy", "unhealthy"],
        Meta(description="`healthy` with status 200, `unhealthy` with status 503."),
    ]
    database: Annotated[
        Literal["connected", "disconnected"],
        Meta(description="Whether the database answered within two seconds."),
    ]
    server: Annotated[str, Meta(description="Always `Laneway`.")]
    version: Annotated[str, Meta(description="Version of the server.")]


async def show_health(call: Call[None, None]) -> Answer:
    connected, well = True, False
    try:
        async with asyncio.timeout(PATIENCE):
            well = await call.service.accepts_writes()
    except (LanewayError, TimeoutError):
        connected = False
    return answer_json(
        200 if well else 503,
        Health(
            status="healthy" if well else "unhealthy",
            database="connected" if connected else "disconnected",
            server="Laneway",
            version=version("laneway"),
        ),
    )


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/health",
        handler=show_health,
        summary="Check the server and its database",
        description=(
            "Sends a query to the database and waits two seconds for the answer. This is "
            "where stream clients look; `/api/health` tells more. The check needs no API key."
        ),
        answers={
            200: Response(Health, "The server and its database are healthy."),
            503: Response(
                Health, "The database did not answer within two seconds, or refuses writes."
            ),
        },
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
)
