"""Chains and groups of steps."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import laneway
from laneway import chain, group, step
from laneway.domain.errors import InvalidSetting, RunFailed
from tests.library.workers import make_app, running

if TYPE_CHECKING:
    from laneway import Connection

LONG = timedelta(seconds=30)


@pytest.fixture
def name() -> str:
    return f"flow-{uuid4().hex[:8]}"


@step
async def add(a: int, b: int) -> int:
    return a + b


@step
async def double(n: int) -> int:
    return n * 2


@step
async def negate(n: int) -> int:
    return -n


@step
async def total(numbers: list[int]) -> int:
    return sum(numbers)


async def test_each_step_of_a_chain_gets_the_result_before(
    lane: Connection, address: str, name: str
) -> None:
    app = make_app(address)
    app.workflow(name=name)(chain(add, double, negate))
    async with running(app):
        run = await lane.start(name, 1, 2)
        assert await run.result(LONG) == -6
        assert [each.result for each in await run.steps()] == [3, 6, -6]


async def test_group_runs_in_parallel_and_calls_back_with_all_results(
    lane: Connection, address: str, name: str
) -> None:
    app, both = make_app(address), asyncio.Barrier(2)

    @step
    async def left(n: int) -> int:
        await both.wait()
        return n + 1

    @step
    async def right(n: int) -> int:
        await both.wait()
        return n + 2

    app.workflow(name=name)(group(left, right, then=total))
    app.workflow(name=f"{name}-list")(group(double, negate))
    async with running(app):
        assert await (await lane.start(name, 10)).result(LONG) == 23
        assert await (await lane.start(f"{name}-list", 10)).result(LONG) == [20, -10]


async def test_chains_and_groups_nest_and_continue_where_they_were(
    lane: Connection, address: str, name: str
) -> None:
    app, calls = make_app(address), []

    @step
    async def load(n: int) -> int:
        calls.append("load")
        return n

    @step(retry=laneway.Retry(max_attempts=1))
    async def flaky(n: int) -> int:
        calls.append("flaky")
        if calls.count("flaky") == 1:
            raise OSError("connection lost")
        return n * 100

    app.workflow(name=name)(chain(load, group(chain(double, negate), flaky, then=total), double))
    async with running(app):
        run = await lane.start(name, 3)
        with pytest.raises(RunFailed, match="connection lost"):
            await run.result(LONG)
        await run.resume()
        assert await run.result(LONG) == (300 - 6) * 2
    assert calls == ["load", "flaky", "flaky"]


async def test_parts_must_be_steps() -> None:
    async def plain(n: int) -> int:
        return n

    with pytest.raises(InvalidSetting, match="plain in a chain is not a step"):
        chain(double, plain)
    with pytest.raises(InvalidSetting, match="group has no parts"):
        group()
    made: Any = group(double, then=total)
    assert callable(chain(made, made))


def test_chains_are_public() -> None:
    assert laneway.chain is chain
