"""Event loops: errors that nobody waits for any more."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger(__name__)


def fail(future: asyncio.Future[Any], error: Exception) -> None:
    """Set a future's error. If its caller was cancelled meanwhile, the loop does not report it."""
    future.set_exception(error)
    future.exception()


def ignore_lost_connections(loop: asyncio.AbstractEventLoop) -> None:
    """Make the loop report no error of a connection: the protocol on it raises its own."""
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    if isinstance(error, OSError) and "transport" in context:
        logger.debug("connection lost: %s: %s", context.get("message"), error)
        return
    loop.default_exception_handler(context)
