"""Payloads as a person gives them: an argument, lines of standard input, or how many to make up."""

from __future__ import annotations

import asyncio
import json
import os
import select
import sys
from datetime import timedelta
from itertools import repeat
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import typer

from laneway.domain.errors import InvalidPayload
from laneway.domain.escapes import escape
from laneway.library.messages import encode_payload
from laneway.library.validation import PayloadRules

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

Item = TypeVar("Item")

# So many bytes of standard input are looked through before any of them is pushed.
_AHEAD = 16 * 1024 * 1024
_MADE_UP = 500
_CHUNK = 65_536
_LOOK = timedelta(milliseconds=50)


async def find_payloads(
    payload: str | None, messages: int | None, *, stream: bool
) -> tuple[int | None, AsyncIterator[Any]]:
    """Return how many there are, where that is known, and what they are.

    stream: look at each line of standard input when it is asked for, and not ahead.
    """
    if payload == "-":
        if messages is not None:
            raise typer.BadParameter("--messages: standard input has as many as it has lines")
        lines = _read_lines()
        return None, _go_on([], lines) if stream else await _look_ahead(lines)
    if stream:
        raise typer.BadParameter("--stream is for standard input: say - for the payload")
    if payload is None:
        count = messages or _MADE_UP
        made_up = ({"message": number, "text": "made up by laneway"} for number in range(count))
        return count, _go_on(made_up)
    count = messages or 1
    return count, _go_on(repeat(_check(payload, "the payload"), count))


async def cut(items: AsyncIterator[Item], size: int) -> AsyncIterator[list[Item]]:
    """Yield lists of so many; where an item cannot be had, those before it come first."""
    batch: list[Item] = []
    try:
        async for item in items:
            batch.append(item)
            if len(batch) == size:
                yield batch
                batch = []
    except typer.BadParameter:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def read_json(text: str, what: str) -> Any:
    """Return what the JSON text says; what it is called is told where it is none."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise typer.BadParameter(f"{what} is nested too deep") from error
    except json.JSONDecodeError as error:
        problem = f"{error.msg} at character {error.pos + 1}"
        raise typer.BadParameter(f"{what} is not JSON: {problem}") from error
    except ValueError as error:
        raise typer.BadParameter(f"{what} is not JSON: {error}") from error


async def _read_lines() -> AsyncIterator[tuple[int, Any]]:
    """Yield of each line of standard input that is not empty its size, and what it says."""
    number = 0
    async for line in _split(_read_chunks()):
        number += 1
        what = f"line {number}"
        try:
            text = line.decode().strip()
        except UnicodeDecodeError as error:
            raise typer.BadParameter(f"{what} is not UTF-8: {error}") from error
        if text:
            yield len(line), _check(text, what)


async def _read_chunks() -> AsyncIterator[bytes]:
    if sys.stdin is None:
        raise typer.BadParameter("standard input is closed")
    source = sys.stdin.fileno()
    chunk = b"unread"
    while chunk:
        # Looked at now and then: a read that waits would keep signals from ending the command.
        await asyncio.sleep(0)
        while not select.select([source], [], [], 0)[0]:  # noqa: ASYNC110 - files have no events
            await asyncio.sleep(_LOOK.total_seconds())
        chunk = os.read(source, _CHUNK)
        yield chunk


async def _split(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
    yield rest


async def _look_ahead(lines: AsyncIterator[tuple[int, Any]]) -> AsyncIterator[Any]:
    """Read to the end, or as far as fits in memory, now."""
    seen = []
    size = 0
    async for length, value in lines:
        seen.append(value)
        size += length
        if size > _AHEAD:
            break
    return _go_on(seen, lines)


async def _go_on(
    first: Iterable[Any], then: AsyncIterator[tuple[int, Any]] | None = None
) -> AsyncIterator[Any]:
    for value in first:
        yield value
    if then is not None:
        async for _, value in then:
            yield value


def _check(text: str, what: str) -> Any:
    """Return the payload; one that would be refused when it is pushed is so now."""
    value = read_json(text, what)
    rules = PayloadRules()
    try:
        rules.check(value)
        rules.check_size(encode_payload(value))
    except InvalidPayload as error:
        raise typer.BadParameter(escape(f"{what}: {error.place} {error.problem}")) from error
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number that JSON has")
