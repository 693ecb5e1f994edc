"""Workflow functions made of steps: chains, and groups with a callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from laneway.domain.errors import InvalidSetting
from laneway.worker.branches import is_step
from laneway.worker.handlers import name_of
from laneway.worker.workflows import join

Part: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]

# Marks the functions that `chain` and `group` return.
_COMPOSED = "__laneway_composed__"


def chain(*parts: Part) -> Part:
    """Return a workflow function that runs steps one after another.

    The first step gets the workflow's arguments, each other one the result of the step before. Parts
    may be groups and chains too. The workflow returns the last result.
    """
    _check("chain", parts)

    async def chain(*arguments: Any) -> Any:
        first, *others = parts
        result = await first(*arguments)
        for part in others:
            result = await part(result)
        return result

    return _mark(chain)


def group(*parts: Part, then: Part | None = None) -> Part:
    """Return a workflow function that runs steps in parallel, each with the workflow's arguments.

    It returns the list of their results, in the order of the parts, or with `then` what this step
    returns for that list. If a part fails, the others finish their running steps, and the run fails.
    """
    _check("group", parts if then is None else (*parts, then))

    async def group(*arguments: Any) -> Any:
        results = await join(asyncio.gather(*(part(*arguments) for part in parts)))
        return list(results) if then is None else await then(list(results))

    return _mark(group)


def _check(kind: str, parts: tuple[Part, ...]) -> None:
    if not parts:
        raise InvalidSetting(f"{kind} has no parts: pass steps")
    for part in parts:
        if not is_step(part) and not getattr(part, _COMPOSED, False):
            raise InvalidSetting(
                f"{name_of(part)} in a {kind} is not a step: decorate it with laneway.step"
            )


def _mark(function: Part) -> Part:
    setattr(function, _COMPOSED, True)
    return function
