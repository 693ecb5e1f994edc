"""The REST protocol's names for the parts of a queue, and their states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from laneway.domain.messages import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

QueuePart: TypeAlias = Literal["main", "processing", "dead", "acknowledged", "archived"]

STATES: Mapping[QueuePart, Status] = {
    "main": Status.QUEUED,
    "processing": Status.PROCESSING,
    "dead": Status.DEAD,
    "acknowledged": Status.ACKNOWLEDGED,
    "archived": Status.ARCHIVED,
}
