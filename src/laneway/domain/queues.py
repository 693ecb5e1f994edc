"""Queues and the groups that read them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from laneway.domain.settings import QueueSettings

# Every queue is created with a group of this name.
DEFAULT_GROUP = "default"


class DefaultQueue(NamedTuple):
    """A queue that is created when it is first named."""

    name: str
    settings: QueueSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A reader of the whole queue; ordered: one consumer per lane at a time, in strict order."""

    group_id: int
    name: str
    ordered: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue with its settings and groups.

    guards: the options that a push over streams must check; see laneway.domain.streams.
    """

    queue_id: int
    name: str
    settings: QueueSettings
    groups: Mapping[str, Group]
    created_at: datetime
    updated_at: datetime
    guards: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many messages a group has in each state.

    `queued` includes `delayed`: messages that are not due yet, as far as a claim has met them.
    """

    group_id: int
    queue_id: int
    queue: str
    group: str
    queued: int
    delayed: int
    processing: int
    acknowledged: int
    dead: int
    archived: int
    oldest: datetime | None
    newest: datetime | None
