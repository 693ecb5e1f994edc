"""The streams protocol under /api/v1: ordered partitions, consumer groups, leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.server.operations import Surface
from laneway.server.queen import (
    group_positions,
    groups,
    health,
    resources,
    status,
    summaries,
    traces,
)
from laneway.server.queen.acks import Acknowledging
from laneway.server.queen.configuration import Configuring
from laneway.server.queen.dead_letters import DeadLetterRoutes
from laneway.server.queen.deliveries import Delivering
from laneway.server.queen.encryption import Vault
from laneway.server.queen.errors import ERRORS, explain
from laneway.server.queen.leases import Leases
from laneway.server.queen.message_browser import Browsing
from laneway.server.queen.pops import Popping
from laneway.server.queen.pushes import Pushing
from laneway.server.queen.transactions import Transacting

if TYPE_CHECKING:
    from laneway.server.settings import ServerSettings


def make_surfaces(settings: ServerSettings) -> tuple[Surface, ...]:
    """Return the protocol's surface under its prefix, and its health check at the root."""
    vault = Vault.from_text(settings.encryption_key)
    leases = Leases()
    delivering = Delivering(vault, leases)
    pushing = Pushing(vault)
    return (
        Surface(
            name="streams",
            prefix="/api/v1",
            operations=(
                *pushing.operations,
                *Popping(delivering, vault).operations,
                *Acknowledging(leases).operations,
                *Transacting(pushing, leases).operations,
                *Configuring(vault).operations,
                *groups.OPERATIONS,
                *group_positions.OPERATIONS,
                *resources.OPERATIONS,
                *summaries.OPERATIONS,
                *Browsing(vault).operations,
                *DeadLetterRoutes(vault).operations,
                *traces.OPERATIONS,
                *status.OPERATIONS,
            ),
            explain=explain,
            errors=ERRORS,
            tags={
                "streams": "Push, pop and settle messages in ordered partitions; configure queues.",
                "groups": "Create, inspect, seek and delete consumer groups.",
                "resources": "Queues, partitions, namespaces and tasks, with their counts.",
                "browse": "List, show, redrive and delete single messages.",
                "dead letters": "List, redrive and delete dead letters.",
                "traces": "Record and list traces: what consumers note about messages.",
                "status": "Counts and throughput.",
            },
        ),
        Surface(name="streams root", prefix="", operations=health.OPERATIONS, explain=explain),
    )


__all__ = ["make_surfaces"]
