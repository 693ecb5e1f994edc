"""The streams protocol under /api/v1: ordered partitions, consumer groups, leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.server.operations import Surface
from laneway.server.queen import (
    group_positions,
    groups,
    health,
    kv,
    locks,
    resources,
    status,
    summaries,
    traces,
)
from laneway.server.queen.acks import AckRoutes
from laneway.server.queen.configuration import ConfigurationRoutes
from laneway.server.queen.dead_letters import DeadLetterRoutes
from laneway.server.queen.deliveries import PopWriter
from laneway.server.queen.encryption import Vault
from laneway.server.queen.errors import ERRORS, explain, explain_for
from laneway.server.queen.leases import Leases
from laneway.server.queen.message_browser import MessageRoutes
from laneway.server.queen.pops import PopRoutes
from laneway.server.queen.pushes import PushRoutes
from laneway.server.queen.reads import ReadRoutes
from laneway.server.queen.timers import TimerRoutes
from laneway.server.queen.transactions import TransactionRoutes

if TYPE_CHECKING:
    from laneway.server.settings import ServerSettings


def make_surfaces(settings: ServerSettings) -> tuple[Surface, ...]:
    """Return the protocol's surface under its prefix, and its health check at the root."""
    vault = Vault.from_text(settings.encryption_key)
    leases = Leases()
    writer = PopWriter(vault, leases)
    pushes = PushRoutes(vault)
    return (
        Surface(
            name="streams",
            prefix="/api/v1",
            operations=(
                *pushes.operations,
                *PopRoutes(writer, vault).operations,
                *AckRoutes(leases).operations,
                *TransactionRoutes(pushes, leases).operations,
                *kv.OPERATIONS,
                *locks.OPERATIONS,
                *TimerRoutes(pushes).operations,
                *ReadRoutes(vault).operations,
                *ConfigurationRoutes(vault).operations,
                *groups.OPERATIONS,
                *group_positions.OPERATIONS,
                *resources.OPERATIONS,
                *summaries.OPERATIONS,
                *MessageRoutes(vault).operations,
                *DeadLetterRoutes(vault).operations,
                *traces.OPERATIONS,
                *status.OPERATIONS,
            ),
            explain=explain,
            tell=explain_for,
            errors=ERRORS,
            tags={
                "streams": "Push, pop and settle messages in ordered partitions; configure queues.",
                "keys": "Keys and values, and locks.",
                "timers": "Messages that are pushed at a time.",
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
