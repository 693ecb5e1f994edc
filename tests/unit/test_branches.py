"""Branches of runs: names of their tasks, on every event loop."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import pickle
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import pytest
import uvloop

from laneway.worker.branches import Branch, find_place, mark_step, within_run, within_step

if TYPE_CHECKING:
    from collections.abc import Callable

PROGRESS: Any = SimpleNamespace(tasks=WeakKeyDictionary())


def old_factory(loop: asyncio.AbstractEventLoop, coroutine: Any) -> asyncio.Task[Any]:
    """Create a task as factories did before tasks took a context."""
    return asyncio.Task(coroutine, loop=loop)


EAGER = getattr(asyncio, "eager_task_factory", None)


async def part() -> str | None:
    return key_of("part")


mark_step(part, "part")


def key_of(label: str) -> str | None:
    place = find_place()
    if isinstance(place, Branch):
        return place.next_key(label)
    return None if place is None else "step"


async def branch(*waits: asyncio.Event) -> list[str | None]:
    for event in waits:
        await event.wait()
    first = key_of("a")
    await asyncio.sleep(0)
    return [first, key_of("b"), *await asyncio.gather(part(), part())]


def keys_below(path: str) -> list[str]:
    return [f"{path}{key}" for key in ("a#1", "b#1", "part#1", "part#2")]


@pytest.mark.parametrize(
    ("make_loop", "factory"),
    [
        (asyncio.new_event_loop, None),
        (asyncio.new_event_loop, old_factory),
        (asyncio.new_event_loop, EAGER),
        (uvloop.new_event_loop, None),
    ],
)
def test_branches_are_named_in_order_of_creation(
    make_loop: Callable[[], asyncio.AbstractEventLoop], factory: Any
) -> None:
    async def flow() -> None:
        loop, gate = asyncio.get_running_loop(), asyncio.Event()
        loop.set_task_factory(factory)
        with within_run(PROGRESS):
            late, early = (asyncio.create_task(branch(*waits)) for waits in ([gate], []))
            assert await early == keys_below("branch#2/")
            gate.set()
            assert await late == keys_below("branch#1/")
            async with asyncio.TaskGroup() as group:
                third = group.create_task(branch(), name="third")
            assert third.get_name() == "third"
            assert third.result() == keys_below("branch#3/")
            assert [*await asyncio.gather(part(), part())] == ["part#1", "part#2"]
            assert key_of("part") == "part#3"
            with within_step():
                assert await asyncio.create_task(part()) == "step"
                assert await asyncio.create_task(branch()) == ["step"] * 4
            assert key_of("part") == "part#4"
        assert loop.get_task_factory() is factory

    loop = make_loop()
    try:
        loop.run_until_complete(flow())
    finally:
        loop.close()


def test_marked_step_is_still_an_async_function_of_its_name() -> None:
    assert inspect.iscoroutinefunction(part)
    assert (part.__name__, part.__qualname__) == ("part", "part")
    assert pickle.loads(pickle.dumps(part)) is part  # noqa: S301 - own data


@pytest.mark.parametrize("factory", [None, EAGER])
async def test_tasks_that_share_a_context_have_different_names(factory: Any) -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    with within_run(PROGRESS):
        context, gate = contextvars.copy_context(), asyncio.Event()
        tasks = [
            asyncio.create_task(branch(*waits), context=context) for waits in ([gate], [], [gate])
        ]
        await tasks[1]
        gate.set()
        assert [await task for task in tasks] == [keys_below(f"branch#{n}/") for n in (1, 2, 3)]
    loop.set_task_factory(None)


async def test_task_that_shares_the_context_of_its_creator_has_its_own_name() -> None:
    async def flow() -> list[str | None]:
        return await asyncio.create_task(branch(), context=context)

    with within_run(PROGRESS):
        context = contextvars.copy_context()
        assert await asyncio.create_task(flow(), context=context) == [
            f"flow#1/{key}" for key in keys_below("branch#1/")
        ]


async def test_concurrent_runs_and_other_tasks_have_different_names() -> None:
    loop = asyncio.get_running_loop()

    async def run() -> list[str | None]:
        with within_run(PROGRESS):
            await asyncio.sleep(0)
            return await asyncio.create_task(branch())

    first, other, second = await asyncio.gather(run(), branch(), run())
    assert first == second == keys_below("branch#1/")
    assert other == [None] * 4
    assert loop.get_task_factory() is None


async def test_task_factory_set_during_a_run_is_kept() -> None:
    loop = asyncio.get_running_loop()
    with within_run(PROGRESS):
        below: Any = loop.get_task_factory()

        def theirs(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> Any:
            return below(loop, coroutine, **options)

        loop.set_task_factory(theirs)
        assert await asyncio.create_task(branch()) == keys_below("branch#1/")

        async def run() -> list[str | None]:
            with within_run(PROGRESS):
                return await asyncio.create_task(branch())

        # Now there is a factory of ours above theirs, and another below it.
        assert await contextvars.Context().run(asyncio.create_task, run()) == keys_below(
            "branch#1/"
        )
        assert loop.get_task_factory() is theirs
    assert loop.get_task_factory() is theirs
    loop.set_task_factory(None)
