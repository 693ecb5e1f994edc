"""The route at the root that tells clients whether the server is well."""

from __future__ import annotations

import asyncio
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from laneway.domain.errors import LanewayError
from laneway.server.access import nothing
from laneway.server.operations import Operation
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from laneway.server.calls import Call

# Seconds; a database that takes longer to say hello is not well.
PATIENCE = 2


class Health(msgspec.Struct, kw_only=True):
    status: Literal["healthy", "unhealthy"]
    database: Literal["connected", "disconnected"]
    server: str
    version: str


async def show_health(call: Call[None, None]) -> Answer:
    well = True
    try:
        async with asyncio.timeout(PATIENCE):
            await call.service.ping()
    except (LanewayError, TimeoutError):
        well = False
    return answer_json(
        200 if well else 503,
        Health(
            status="healthy" if well else "unhealthy",
            database="connected" if well else "disconnected",
            server="Laneway",
            version=version("laneway"),
        ),
    )


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/health",
        handler=show_health,
        summary="Whether the server and its database are well, for streams' clients",
        answers={200: Health, 503: Health},
        role=None,
        reach=nothing,
        kind="health",
        tag="monitoring",
    ),
)
