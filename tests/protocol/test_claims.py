"""Claims that a request does not deliver are released, whatever kept it from that."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.engine import Broker
from laneway.server.claims import Claims
from laneway.server.errors import ClientGone

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

QUIET = EngineSettings(maintenance=MaintenanceSettings(enabled=False))


class Request:
    """A call as far as its claims need one. stopping: the server stops as its wait ends."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.gone = False
        self.stopping = False

    def is_gone(self) -> bool:
        return self.gone

    def leave(self) -> NoReturn:
        raise ClientGone("gone")

    async def attend(
        self,
        work: Coroutine[Any, Any, Any],
        *,
        otherwise: Any,
        caller: Any,  # noqa: ARG002 - as a call's own
    ) -> Any:
        result = await work
        return otherwise if self.stopping else result


@pytest.fixture
async def broker(database: str) -> AsyncIterator[Broker]:
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs")
        await broker.push("jobs", [OutgoingMessage('"one"'), OutgoingMessage('"two"')])
        yield broker


@pytest.fixture
def request_(broker: Broker) -> Any:
    return Request(broker)


async def attempts(broker: Broker) -> list[int]:
    return [delivery.attempt for delivery in await broker.claim("jobs", 10)]


@pytest.mark.parametrize("error", [ValueError("cannot be encoded"), asyncio.CancelledError()])
async def test_failure_releases_every_claim_of_the_request(
    broker: Broker, request_: Any, error: BaseException
) -> None:
    with pytest.raises(type(error)):  # noqa: PT012 - in the context of the claims
        async with Claims(request_) as claims:
            assert len(await claims.make(broker.claim("jobs"))) == 1
            assert len(await claims.make(broker.claim_spans("jobs", 1), wait=True)) == 1
            assert await attempts(broker) == []
            raise error
    assert await attempts(broker) == [1, 1]


async def test_cancelled_request_finishes_its_release(broker: Broker, request_: Any) -> None:
    claimed = asyncio.Event()

    async def answer() -> None:
        async with Claims(request_) as claims:
            await claims.make(broker.claim("jobs", 2))
            claimed.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(answer())
    await claimed.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    deliveries = await broker.claim("jobs", 2, wait=timedelta(seconds=20))
    assert {delivery.attempt for delivery in deliveries} == {1}


async def test_client_that_is_gone_at_the_end_gets_nothing(broker: Broker, request_: Any) -> None:
    with pytest.raises(ClientGone):  # noqa: PT012 - in the context of the claims
        async with Claims(request_) as claims:
            await claims.make(broker.claim("jobs", 2))
            request_.gone = True
    assert await attempts(broker) == [1, 1]


async def test_stop_of_the_server_releases_what_its_wait_claimed(
    broker: Broker, request_: Any
) -> None:
    request_.stopping = True
    async with Claims(request_) as claims:
        work = claims.make(broker.claim("jobs", 2))
        assert await claims.attend(work, otherwise=None) is None
    assert await attempts(broker) == [1, 1]


async def test_delivered_and_settled_messages_are_not_released(
    broker: Broker, request_: Any
) -> None:
    async with Claims(request_) as claims:
        await claims.make(broker.claim("jobs"))
    with pytest.raises(ClientGone):  # noqa: PT012 - in the context of the claims
        async with Claims(request_) as claims:
            [delivery] = await claims.make(broker.claim("jobs"))
            await broker.ack([delivery.receipt])
            claims.keep()
            request_.leave()
    assert await attempts(broker) == []


async def test_part_of_what_was_claimed_is_released_alone(broker: Broker, request_: Any) -> None:
    async with Claims(request_) as claims:
        await claims.make(broker.claim("jobs"))
        other = await claims.make(broker.claim("jobs"))
        await claims.release(other)
    assert await attempts(broker) == [1]


async def test_release_that_fails_leaves_the_error_as_it_was(
    broker: Broker, request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> NoReturn:
        raise ConnectionError("unreachable")

    with pytest.raises(ValueError, match="cannot be encoded"):  # noqa: PT012 - in the context of the claims
        async with Claims(request_) as claims:
            await claims.make(broker.claim("jobs"))
            monkeypatch.setattr("laneway.engine.pumps.settle.release_many", fail)
            raise ValueError("cannot be encoded")
