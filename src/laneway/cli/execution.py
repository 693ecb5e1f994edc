"""Execution of a command's coroutine, with signals, error messages and exit codes."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import typer

from laneway.cli.errors import FlagInvalid
from laneway.cli.stdio import tell
from laneway.domain.errors import Conflict, InvalidRequest, LanewayError, NotFound, Retryable
from laneway.domain.loops import ignore_lost_connections

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator

Result = TypeVar("Result")

ENDED_BY_SIGNAL = 128

# Any other error exits with 1. Typer exits with 2 too for flags that it refuses itself.
CODES: dict[type[Exception], int] = {
    FlagInvalid: 2,
    NotFound: 3,
    Conflict: 4,
    # Any other error of the call itself.
    InvalidRequest: 2,
    Retryable: 5,
}


def execute(command: Coroutine[None, None, Result]) -> Result:
    """Run a command; SIGTERM and Ctrl-C cancel it, so that it stops what it started."""
    import uvloop

    try:
        with reporting():
            return uvloop.run(_until_terminated(command))
    except asyncio.CancelledError:
        raise typer.Exit(ENDED_BY_SIGNAL + signal.SIGTERM) from None
    except KeyboardInterrupt:
        raise typer.Exit(ENDED_BY_SIGNAL + signal.SIGINT) from None


@contextmanager
def reporting() -> Iterator[None]:
    """Print an error in one line, and exit with its code."""
    try:
        yield
    except LanewayError as error:
        tell(f"laneway: {error}")
        raise typer.Exit(find_code(error)) from error
    except TimeoutError as error:
        tell(f"laneway: {str(error) or 'timed out: try again'}")
        raise typer.Exit(CODES[Retryable]) from error


def find_code(error: Exception) -> int:
    return next((code for kind, code in CODES.items() if isinstance(error, kind)), 1)


async def _until_terminated(command: Coroutine[None, None, Result]) -> Result:
    task = asyncio.current_task()
    ignore_lost_connections(asyncio.get_running_loop())
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await command
