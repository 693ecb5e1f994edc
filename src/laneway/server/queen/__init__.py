"""The streams protocol under /api/v1: ordered partitions, consumer groups, leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.server.operations import Surface
from laneway.server.queen import groups, health, resources, status, steering, sums, tracing
from laneway.server.queen.acknowledging import Acknowledging
from laneway.server.queen.browsing import Browsing
from laneway.server.queen.burying import Burying
from laneway.server.queen.configuring import Configuring
from laneway.server.queen.delivering import Delivering
from laneway.server.queen.errors import ERRORS, explain
from laneway.server.queen.leases import Leases
from laneway.server.queen.popping import Popping
from laneway.server.queen.pushing import Pushing
from laneway.server.queen.transacting import Transacting
from laneway.server.queen.vault import Vault

if TYPE_CHECKING:
    from laneway.server.settings import ServerSettings


def make_surfaces(settings: ServerSettings) -> tuple[Surface, ...]:
    """Return the protocol, and what its clients look for at the root."""
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
                *steering.OPERATIONS,
                *resources.OPERATIONS,
                *sums.OPERATIONS,
                *Browsing(vault).operations,
                *Burying(vault).operations,
                *tracing.OPERATIONS,
                *status.OPERATIONS,
            ),
            explain=explain,
            errors=ERRORS,
        ),
        Surface(name="streams root", prefix="", operations=health.OPERATIONS, explain=explain),
    )


__all__ = ["make_surfaces"]
