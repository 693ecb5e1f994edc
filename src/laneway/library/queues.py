"""Queues and groups that are created where they are missing."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.domain.errors import (
    AccessDenied,
    GroupExists,
    GroupNotFound,
    QueueExists,
    QueueNotFound,
)
from laneway.domain.queues import DEFAULT_GROUP
from laneway.domain.settings import QueueSettings

if TYPE_CHECKING:
    from laneway.domain.backend import Backend
    from laneway.domain.queues import Queue

logger = logging.getLogger(__name__)

# Of a workflow's queue: the run's own message limits its attempts. A run of a dead worker continues at once.
WORKFLOWS = QueueSettings(max_attempts=None, backoff=timedelta(0))


async def ensure_queue(backend: Backend, name: str, settings: QueueSettings) -> Queue:
    """Return a queue, created with these settings if it is missing.

    Raises QueueNotFound if it is missing and the API key may not create queues.
    """
    try:
        return await backend.queues.get(name)
    except QueueNotFound as missing:
        try:
            made = await backend.queues.create(name, settings)
        except QueueExists:
            # Another program created it meanwhile.
            return await backend.queues.get(name)
        except AccessDenied:
            raise missing from None
        logger.info('queue "%s" created', name)
        return made


async def ensure_group(backend: Backend, queue: str, name: str) -> None:
    """Create a consumer group of a queue, which starts with its oldest message, if it is missing.

    Raises GroupNotFound if it is missing and the API key may not create groups.
    """
    if name == DEFAULT_GROUP or name in {
        group.name for group in await backend.groups.list_all(queue)
    }:
        return
    try:
        with suppress(GroupExists):
            await backend.groups.create(queue, name)
            logger.info('consumer group "%s" of queue "%s" created', name, queue)
    except AccessDenied:
        raise GroupNotFound(group=name, queue=queue) from None
